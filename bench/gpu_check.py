"""Time that the check of the GPUs adds to the start of an engine.

    python -m bench.gpu_check [--output text|json]

The engine is `true`, and the CUDA driver a small shared library with eight GPUs: so the figure is Python's start, the
check itself and `exec`, without the initialisation of a real driver. Beside it: the same Python that does nothing.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.figures import Figure, at_most, parser_of, shown
from inference_operator.engines.programs import PROGRAMS_VARIABLE, checked_start, programs_text
from inference_operator.engines.vllm.vllm import PROGRAMS
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import SizingInputs
from tests.testing.cuda_driver import H100, compile_driver

STARTS = 15
GPUS = 8
AIM = at_most(0.5)
"""Seconds; an engine loads for minutes."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    args = parser_of("python -m bench.gpu_check", "Time that the GPU check adds to an engine's start.").parse_args(
        arguments
    )
    plan = replace(unchecked_plan(SizingInputs(tensor=GPUS)), gpu="H100-80GB")
    _, *checked = checked_start(("true",), plan)
    with tempfile.TemporaryDirectory() as folder:
        compile_driver(Path(folder) / "libcuda.so.1", [H100] * GPUS)
        figures = [
            Figure("start with the GPU check", _seconds([sys.executable, *checked], folder), "s", AIM),
            Figure("start of Python alone", _seconds([sys.executable, "-I", "-S", "-c", ""], folder), "s"),
        ]
    print(shown(figures, args.output))
    return 0


def _seconds(command: Sequence[str], libraries: str) -> float:
    """The median time of a command."""
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries, PROGRAMS_VARIABLE: programs_text(PROGRAMS)}
    times = []
    for _ in range(STARTS):
        began = time.perf_counter()
        subprocess.run(command, env=environment, check=True)
        times.append(time.perf_counter() - began)
    return median(times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
