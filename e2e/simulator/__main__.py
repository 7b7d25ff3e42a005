"""The command line: `python -m e2e.simulator NAME [arguments of vllm serve]`; the image calls it `vllm serve`."""

import asyncio
import signal
import sys

from aiohttp import web

from e2e.simulator.api import application
from e2e.simulator.engine import Engine
from e2e.simulator.options import parsed


async def serve(arguments: list[str]) -> None:
    """Serve until SIGTERM or SIGINT; answers under way are finished, as `--shutdown-timeout` asks of vLLM."""
    options, ignored = parsed(arguments)
    print(f"simulated engine: {options!r}; without effect: {ignored}", flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await asyncio.sleep(options.start_seconds)
    # A client that leaves ends its request, as in vLLM.
    runner = web.AppRunner(
        application(Engine(options)), handler_cancellation=True, access_log=None, shutdown_timeout=10
    )
    await runner.setup()
    # asyncio binds `::` for IPv6 alone; vLLM, with the operator's `--host=::`, serves both families.
    await web.TCPSite(runner, options.host if options.host != "::" else None, options.port, backlog=2048).start()
    await stopped.wait()
    await runner.cleanup()


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(serve(given[1:] if given[:1] == ["serve"] else given))
