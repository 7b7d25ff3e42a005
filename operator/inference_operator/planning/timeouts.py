"""Startup and shutdown timeouts of an engine."""

import math

from inference_operator.api.spec import Spec
from inference_operator.engines.process import Timeouts
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan

BYTES_PER_SECOND = 60_000_000
"""Download rate assumed for weights from a hub or a volume. It is pessimistic: half of the default throughput of an AWS
gp3 volume, 125 MiB/s (Amazon EBS User Guide, "General Purpose SSD volumes")."""
PREPARATION_SECONDS = 600
"""Time for everything except fetching weights: processes, compilation, CUDA graphs, warm-up. vLLM allows its engine as
much for the whole start by default (0.32.0, vllm/envs.py, VLLM_ENGINE_READY_TIMEOUT_S)."""
LEAST_SECONDS = 1800
"""Shortest timeout. A failing start exits and a hanging one is rare, so a timeout below 30 minutes has no benefit."""


def timeouts(spec: Spec, plan: Plan, settings: Settings) -> Timeouts:
    """The timeouts that the spec sets. The default startup timeout depends on the size of the checkpoint."""
    requested = spec.startup_timeout
    return Timeouts(
        startup=int(requested.total_seconds()) if requested else startup_seconds(plan.weight_bytes),
        dns_staleness=settings.dns_staleness_seconds,
        drain=int(spec.drain_timeout.total_seconds()),
    )


def startup_seconds(weight_bytes: int | None) -> int:
    """Seconds that an engine may take to become ready; the shortest timeout if the checkpoint's size is unknown.

    Examples:
        >>> startup_seconds(None), startup_seconds(16_000_000_000), startup_seconds(140_000_000_000)
        (1800, 1800, 2934)
    """
    if weight_bytes is None:
        return LEAST_SECONDS
    return max(LEAST_SECONDS, PREPARATION_SECONDS + math.ceil(weight_bytes / BYTES_PER_SECOND))
