"""How long an engine may take to start, from the bytes that it has to get."""

import math

BYTES_PER_SECOND = 60_000_000
"""A pessimistic rate of getting weights, from a hub or a volume: half of what an AWS gp3 volume gives unless more is
paid for, 125 MiB/s (Amazon EBS User Guide, "General Purpose SSD volumes")."""

PREPARATION_SECONDS = 600
"""Everything but getting weights (processes, compiling, CUDA graphs, warming up): what vLLM allows its engine for all
of its start by default (0.32.0, vllm/envs.py, VLLM_ENGINE_READY_TIMEOUT_S)."""

LEAST_SECONDS = 1800
"""Below half an hour nothing is gained: a start that fails ends by itself, and one that hangs is rare."""


def startup_seconds(weights_bytes: int | None) -> int:
    """How long an engine may take from its start until it answers; what is unknown gets the least.

    Examples:
        >>> startup_seconds(None), startup_seconds(16_000_000_000), startup_seconds(140_000_000_000)
        (1800, 1800, 2934)
    """
    if weights_bytes is None:
        return LEAST_SECONDS
    return max(LEAST_SECONDS, PREPARATION_SECONDS + math.ceil(weights_bytes / BYTES_PER_SECOND))
