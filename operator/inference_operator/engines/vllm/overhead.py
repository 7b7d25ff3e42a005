"""The time of vLLM's own program in each step, by version: scheduling, sampling, and answers to clients."""

from inference_operator.engines.vllm.memory import LATEST, V1_DEFAULT, version_of
from inference_operator.sizing.steptime import Overhead

V0_OVERHEAD = Overhead(step=7.5e-3, sequence=33e-6)
"""Fitted to published measurements of 0.5.4 (`bench/data/throughput.csv`)."""
OVERHEAD = Overhead(step=1e-3, sequence=5e-6)
"""Fitted to those of 0.10 and 0.11. None of a later version is known here, so it stands for those too."""


def step_overhead(version: str) -> Overhead:
    """The overhead of a version as vLLM prints it; of the latest known one if it is empty or unreadable.

    Examples:
        >>> step_overhead("0.5.4") == V0_OVERHEAD, step_overhead("0.32.0") == OVERHEAD
        (True, True)
    """
    return OVERHEAD if (version_of(version) or LATEST) >= V1_DEFAULT else V0_OVERHEAD
