"""The KV cache that an engine reports, compared with the estimate."""

from collections.abc import Sequence

from inference_operator.api.status import KvCacheStatus
from inference_operator.status.observation import Observation, RoleObservation
from inference_operator.views.engine import EngineView
from inference_operator.views.samples import Samples

DEVIATION = 0.1
"""Deviation from the estimate above which status mentions it: 90 of 100 published start-ups were within 2 %
(`python -m bench.sizing`)."""


def kv_cache(observation: Observation, role: RoleObservation) -> KvCacheStatus | None:
    """The KV cache of the engines of a role's template, as the first of them reported it.

    The number is read back from status while the template stays, so that status does not change without a
    cause or when the operator restarts.
    """
    template, plan, engine = role.live.view.template, role.plan, role.recorded.engine
    if template is None:
        return None
    before = engine.kv_cache if engine else None
    reported = (
        before.reported_tokens
        if before and before.pod_template_hash == template
        else _reported([engine for engine in role.engines if engine.template == template], observation.inputs.samples)
    )
    if reported is None:
        return None
    computed = plan.per_gpu.kv_cache_tokens if plan and plan.per_gpu else None
    return KvCacheStatus(estimated_tokens=computed, reported_tokens=reported, pod_template_hash=template)


def remark(kv_cache: KvCacheStatus | None) -> str:
    """A sentence about the reported size; empty where it is as estimated."""
    if kv_cache is None:
        return ""
    sentence = f"An engine reports a KV cache of {kv_cache.reported_tokens:,} tokens"
    if not kv_cache.estimated_tokens:
        return f"{sentence}."
    off = kv_cache.reported_tokens / kv_cache.estimated_tokens - 1
    if abs(off) <= DEVIATION:
        return ""
    return f"{sentence}, {100 * abs(off):.0f} % {'more' if off > 0 else 'fewer'} than estimated."


def _reported(engines: Sequence[EngineView], samples: Samples) -> int | None:
    """The size that the oldest ready engine reports."""
    ready = (engine for engine in engines if engine.ready and engine.uid in samples.engines)
    oldest = sorted(ready, key=lambda engine: (str(engine.created), engine.name))
    reported = (samples.engines[engine.uid].sample.kv_cache_tokens for engine in oldest)
    return next((tokens for tokens in reported if tokens), None)
