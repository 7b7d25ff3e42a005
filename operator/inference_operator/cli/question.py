"""A question with yes or no at a terminal."""

import asyncio
import signal
import sys

YES = frozenset({"y", "yes"})


async def is_agreed(question: str) -> bool:
    """Whether the person at the terminal answers a question with yes; the end of the input is no.

    The event loop waits for the line. A reading of Python's own misses a Ctrl-C that comes just before it blocks.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    waiting = asyncio.ensure_future(typed.wait())
    loop.add_signal_handler(signal.SIGINT, waiting.cancel)
    loop.add_reader(sys.stdin, typed.set)
    try:
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        await waiting
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
    finally:
        loop.remove_reader(sys.stdin)
        loop.remove_signal_handler(signal.SIGINT)
    return sys.stdin.readline().strip().lower() in YES
