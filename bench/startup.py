"""`python -m bench.startup`: the phases of an engine's start on this machine, and what each way to shorten it saves.

What runs here is measured in the same run:

- The download of a model to a claim by `infd download`, from a hub on this machine, and the second Job of the same
  model, which finds the record.
- The start of a real vLLM on the CPU with 1.3 GB of weights (root or Docker), with its program and weights dropped from
  the page cache, and again with both in it; and both with several threads that load the weights. The phases come from
  its log, by the rules that status uses.

Other programs only make a start slower. So each way is measured `PASSES` times, in turn, and the fastest counts. What
needs a GPU, a compiler or a remote registry reads "not measured", with the reason.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from statistics import median

from bench.figures import Figure, at_most, parser_of, shown, unmeasured
from bench.startups import startups
from e2e.engines.start_times import TimedStart, Way, timed_starts
from inference_operator.engines.start_log import Phase
from inference_operator.engines.vllm.start_log import phase
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
COLD, WARM = Way(is_cold=True), Way(is_cold=False)
THREADED = {way: Way(way.is_cold, in_threads=True) for way in (COLD, WARM)}
WAYS = (COLD, WARM, THREADED[COLD], THREADED[WARM])
UNMEASURED: Mapping[str, str] = {
    "image that a node has already pulled": "it needs a remote registry",
    "compiled kernels on a claim": "the engine's image for CPUs has no compiler",
    "no CUDA graphs (--enforce-eager)": "it needs a GPU",
    "given size of the KV cache (--kv-cache-memory-bytes)": "only engines on GPUs estimate the memory of CUDA graphs",
    "wake-up from sleep instead of a start": "it needs a GPU, and the operator has no sleep mode",
}
"""Ways to shorten a start that cannot be measured here, with the reason."""
MARGIN_GIB = 150 / 1024
"""vLLM's suggested size of the KV cache leaves this out, and the CUDA graphs twice (0.32.0, v1/worker/gpu_worker.py,
`compile_or_warm_up_model`; vllm-project/vllm#57936)."""


def phase_seconds(start: TimedStart) -> dict[str, float]:
    """Seconds of each phase of a start, in their order; the sum is the time of the first answer.

    Examples:
        >>> lines = [(2.0, "Initializing a V1 LLM engine"), (3.0, "Starting to load model /m"), (5.5, "x")]
        >>> phase_seconds(TimedStart(COLD, lines, ready=6.0, answered=6.5))
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
    """The figures of starts in all ways, and of some downloads: seconds of the first Job and of the second one."""
    first, second = (min(times) for times in zip(*downloads, strict=True))
    yield Figure("download to a claim, first Job", first, "s")
    yield Figure("download to a claim, second Job", second, "s")
    yield Figure("download, second / first", second / first, "x", at_most(RECORD_AIM))
    fastest = {way: min((one for one in starts if one.way == way), key=_answered) for way in WAYS}
    cold, warm = fastest[COLD], fastest[WARM]
    of_cold, of_warm = phase_seconds(cold), phase_seconds(warm)
    for name in of_cold:
        yield Figure(f"start, cold: {name}", of_cold[name], "s")
        yield Figure(f"start, warm: {name}", of_warm.get(name, nan), "s")
    yield Figure("load, warm / cold", of_warm["load"] / of_cold["load"], "x", at_most(WARM_AIM))
    yield Figure("start to first answer, cold", cold.answered, "s")
    yield Figure("start to first answer, warm", warm.answered, "s")
    yield Figure("start to first answer, warm / cold", warm.answered / cold.answered, "x", at_most(WARM_AIM))
    for way, name in ((COLD, "cold"), (WARM, "warm")):
        times = [one.answered for one in starts if one.way == way]
        yield Figure(f"{name} starts: slowest / fastest", max(times) / min(times), "x")
    yield from savings(fastest, first - second)


def savings(fastest: Mapping[Way, TimedStart], download: float) -> Iterator[Figure]:
    """What each way to shorten a start saves, in seconds; negative if it makes the start longer.

    Args:
        fastest: the fastest start of each way.
        download: seconds of a download that a second Job does not repeat.
    """
    yield Figure("saved by: model on a claim", download, "s")
    yield Figure("saved by: files in the page cache", fastest[COLD].answered - fastest[WARM].answered, "s")
    for way, threaded in THREADED.items():
        one, several = (phase_seconds(fastest[chosen])["load"] for chosen in (way, threaded))
        yield Figure(f"saved by: several threads that load, {'cold' if way.is_cold else 'warm'}", one - several, "s")
    for name, why in UNMEASURED.items():
        yield unmeasured(f"saved by: {name}", "s", why)
    yield Figure("KV cache lost by vLLM's suggested size, median of published starts", median(lost_shares()), "%")


def lost_shares() -> list[float]:
    """For each published start, the per cent of its KV cache that it would lose with the size that vLLM suggests."""
    rows = ((row.number("cuda_graph_gib") or 0.0, row.number("kv_gib_per_gpu")) for row in startups() if row.started)
    return [100 * (graphs + MARGIN_GIB) / cache for graphs, cache in rows if cache and graphs > 0]


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
    print(shown(list(figures(timed_starts(WAYS * PASSES), downloads)), args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
