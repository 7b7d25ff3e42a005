"""`python -m bench.startup`: where the time of an engine's start goes, cold and warm, on this machine.

Two ways run here, and each is measured cold and warm in the same run:

- The download of a model to a claim by `infd download`, from a hub on this machine, and the second Job of the same
  model, which finds the record.
- The start of a real vLLM on the CPU with 1.3 GB of weights (root or Docker), with its program and weights dropped from
  the page cache, and again with both in it. The phases come from its log, by the rules that status uses.

Other programs only make a start slower. So each way is measured `PASSES` times, in turn, and the fastest counts. The
ratios say what is saved. What needs a GPU, a compiler or a remote registry reads "not measured".
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path

from bench.figures import Figure, at_most, parser_of, shown
from e2e.engine_starts import TimedStart, timed_starts
from inference_operator.engines.base import Phase
from inference_operator.engines.vllm.phase import phase
from tests.testing.hub import COMMIT, REPOSITORY, Hub, serving

PASSES = 2
MODEL_BYTES = 256 * 2**20
RECORD_AIM = 0.5
"""A second Job starts a Python process and reads one record: far below any download."""
WARM_AIM = 1.0
"""A start from the page cache must not be slower than one from the disk."""
PROGRAM = "program"
"""Before the first message of the engine: Python and its imports."""
NAMES: Mapping[Phase, str] = {
    Phase.SETTING_UP: "set-up",
    Phase.CONNECTING: "connection of GPUs",
    Phase.DOWNLOADING: "download",
    Phase.LOADING: "load",
    Phase.COMPILING: "compile",
    Phase.WARMING_UP: "warm-up",
    Phase.CAPTURING: "capture of CUDA graphs",
}
FIRST = "first answer"
UNMEASURED = (
    "pull of the image, warm / cold",
    "torch.compile with kept kernels / without",
    "capture of CUDA graphs",
    "profiling of memory / --kv-cache-memory-bytes",
    "loading by several threads / by one",
    "wake-up from sleep / start",
)
"""Each needs a GPU, a compiler in the image, or a remote registry."""


def phase_seconds(start: TimedStart) -> dict[str, float]:
    """Seconds of each phase of a start, in their order; the sum is the time of the first answer.

    Examples:
        >>> lines = [(2.0, "Initializing a V1 LLM engine"), (3.0, "Starting to load model /m"), (5.5, "x")]
        >>> phase_seconds(TimedStart(True, lines, ready=6.0, answered=6.5))
        {'program': 2.0, 'set-up': 1.0, 'load': 3.0, 'first answer': 0.5}
    """
    text, latest, since = "", PROGRAM, 0.0
    seconds: dict[str, float] = {}
    for at, line in start.lines:
        if at > start.ready:
            break
        text += line
        found = phase(text)
        name = NAMES[found] if found else PROGRAM
        if name != latest:
            seconds[latest] = seconds.get(latest, 0.0) + at - since
            latest, since = name, at
    seconds[latest] = seconds.get(latest, 0.0) + start.ready - since
    return {**seconds, FIRST: start.answered - start.ready}


def figures(starts: Sequence[TimedStart], downloads: Sequence[tuple[float, float]]) -> Iterator[Figure]:
    """The figures of some starts, and of some downloads: seconds of the first Job and of the second one."""
    first, second = (min(times) for times in zip(*downloads, strict=True))
    yield Figure("download to a claim, first Job", first, "s")
    yield Figure("download to a claim, second Job", second, "s")
    yield Figure("download, second / first", second / first, "x", at_most(RECORD_AIM))
    cold, warm = (min((s for s in starts if s.is_cold is wanted), key=_answered) for wanted in (True, False))
    of_cold, of_warm = phase_seconds(cold), phase_seconds(warm)
    for name in of_cold:
        yield Figure(f"start, cold: {name}", of_cold[name], "s")
        yield Figure(f"start, warm: {name}", of_warm.get(name, nan), "s")
    yield Figure("load, warm / cold", of_warm["load"] / of_cold["load"], "x", at_most(WARM_AIM))
    yield Figure("start to first answer, cold", cold.answered, "s")
    yield Figure("start to first answer, warm", warm.answered, "s")
    yield Figure("start to first answer, warm / cold", warm.answered / cold.answered, "x", at_most(WARM_AIM))
    for one in (True, False):
        times = [start.answered for start in starts if start.is_cold is one]
        yield Figure(f"{'cold' if one else 'warm'} starts: slowest / fastest", max(times) / min(times), "x")
    yield from (Figure(name, nan, "x") for name in UNMEASURED)


def _answered(start: TimedStart) -> float:
    return start.answered


def timed_downloads() -> tuple[float, float]:
    """Seconds of `infd download` to an empty folder, and once more."""
    with (
        tempfile.TemporaryDirectory() as place,
        serving(Hub(large={"model.safetensors": bytes(MODEL_BYTES)}, files={"config.json": b"{}"})) as hub,
    ):
        infd = str(Path(sys.executable).with_name("infd"))
        command = [infd, "download", f"hf://{REPOSITORY}", f"--revision={COMMIT}", f"--cache={place}/claim"]
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}  # no proxy of this machine
        environment = {**own, "HF_ENDPOINT": hub.endpoint, "HF_HOME": f"{place}/home"}
        times = []
        for _ in range(2):
            began = time.monotonic()
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            times.append(time.monotonic() - began)
    return times[0], times[1]


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the figures."""
    args = parser_of("python -m bench.startup", "Phases of starts, cold and warm.").parse_args(arguments)
    downloads = [timed_downloads() for _ in range(PASSES)]
    print(shown(list(figures(timed_starts([True, False] * PASSES), downloads)), args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
