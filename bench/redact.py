"""CPU time of what the operator does with texts of others, for the texts that cost each pattern most.

    python -m bench.redact [--repeats N] [--output text|json]

1. `log_tail`: a log as the operator reads it, 256 KiB, and its quarter. The time must grow with the length, no faster.
2. The readers of logs and of metric pages of each engine, on what is kept of a log, and on a page of 1 MiB.

All of it runs in the event loop that renews the Lease, so it is a part of what holds probes and reconciles.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from bench.figures import Figure, at_most, parser_of, shown
from inference_operator.engines.registry import ENGINES
from inference_operator.kube.lookup_poller import LOG_BYTES, LOG_LINES
from inference_operator.scrape.pod_client import MAX_BODY_BYTES
from inference_operator.views.untrusted_text import LOG_CHARACTERS, log_tail, one_line
from tests.testing.untrusted_texts import MESSAGES, WORST

REPEATS = 5
MOST_MS = 20.0
"""Of one log, so that twelve of them are no stall of 0.25 s."""
MOST_GROWTH = 5.0
"""Of a text that is four times as long."""
LEAST_MS = 1.0
"""Shorter times count as so long: they are those of the clock."""
MOST_STALL_MS = 250.0
PAGES = (
    'vllm:num_requests_running{model_name="m"} 1\n',
    'vllm:time_to_first_token_seconds_bucket{le="1.0"} 1\n',
    'sglang:num_running_reqs{a="b"} 1\n',
    "vllm:num_requests_running{" + 'a="b",' * 2000,
    'vllm:num_requests_running{a="' + "\\\\" * 2000,
)
"""Lines of pages that are read, and such that are none."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.redact", "CPU time of what the operator does with texts of others.")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of which the fastest counts")
    args = parser.parse_args(arguments)
    print(shown(list(measured(args.repeats)), args.output))
    return 0


def measured(repeats: int) -> Iterator[Figure]:
    """The figures of the worst texts."""

    def tail(text: str) -> str:
        return log_tail(text, lines=LOG_LINES, size=LOG_BYTES)

    whole = {piece: milliseconds(tail, filled(piece, LOG_BYTES), repeats) for piece in WORST}
    part = {piece: milliseconds(tail, filled(piece, LOG_BYTES // 4), repeats) for piece in WORST}
    worst = max(whole, key=lambda piece: whole[piece])
    yield Figure(f"log_tail, 256 KiB of {worst[:20]!r}", whole[worst], "ms", at_most(MOST_MS))
    growth = {piece: whole[piece] / max(part[piece], LEAST_MS) for piece in WORST}
    worst = max(growth, key=lambda piece: growth[piece])
    yield Figure(f"256 KiB by 64 KiB of {worst[:20]!r}", growth[worst], "times", at_most(MOST_GROWTH))
    yield slowest("one_line", one_line, WORST, LOG_BYTES, repeats=repeats, most=MOST_MS)
    pieces = [*WORST, *(message.replace("#", "1") for message in MESSAGES)]
    for name, engine in ENGINES.by_name.items():
        for read in (engine.diagnose, engine.shortage, engine.phase, engine.load_progress):
            yield slowest(f"{name}.{read.__name__}", read, pieces, LOG_CHARACTERS, repeats=repeats)
        for sample in (engine.sample, engine.load):
            yield slowest(
                f"{name}.{sample.__name__}", sample, PAGES, MAX_BODY_BYTES, repeats=repeats, most=MOST_STALL_MS
            )


def slowest(
    name: str,
    read: Callable[[str], object],
    pieces: Iterable[str],
    size: int,
    *,
    repeats: int,
    most: float = MOST_STALL_MS,
) -> Figure:
    """The figure of the text that takes a reader longest."""
    times = {piece: milliseconds(read, filled(piece, size), repeats) for piece in pieces}
    worst = max(times, key=lambda piece: times[piece])
    return Figure(f"{name}, {size // 1024} KiB of {worst[:20]!r}", times[worst], "ms", at_most(most))


def filled(piece: str, size: int) -> str:
    """A text of this length.

    Examples:
        >>> filled("ab", 5)
        'ababa'
    """
    return (piece * (size // len(piece) + 1))[:size]


def milliseconds(read: Callable[[str], object], text: str, repeats: int) -> float:
    """CPU time of the fastest run."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        read(text)
        times.append(1000 * (time.process_time() - begin))
    return min(times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
