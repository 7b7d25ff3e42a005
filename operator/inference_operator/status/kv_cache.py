"""What an engine tells of its KV cache, to stand beside what was computed."""

from inference_operator.api.status import KvCacheStatus
from inference_operator.pipeline import Inputs
from inference_operator.sizing.plan import Plan

DEVIATION = 0.1
"""From which on the difference is worth a sentence: 90 of 100 published start-ups were computed to within 2 %
(`python -m bench.sizing`)."""


def kv_cache(inputs: Inputs, template: str | None, plan: Plan | None) -> KvCacheStatus | None:
    """The KV cache of the engines of this template: what one of them told first, for as long as the template stands.

    It is read back from status, so that nothing changes by itself, nor with a restart of the operator.
    """
    if template is None:
        return None
    engine = inputs.resource.status.engine
    before = engine.kv_cache if engine else None
    told = before.reported_tokens if before and before.template == template else _told(inputs, template)
    if told is None:
        return None
    computed = plan.per_gpu.kv_cache_tokens if plan and plan.per_gpu else None
    return KvCacheStatus(estimated_tokens=computed, reported_tokens=told, template=template)


def remark(found: KvCacheStatus | None) -> str:
    """What is to be said of it; empty where it is as computed.

    Examples:
        >>> remark(KvCacheStatus(estimated_tokens=400_000, reported_tokens=300_000, template="a"))
        'An engine reports a KV cache of 300,000 tokens, 25 % fewer than estimated.'
        >>> remark(KvCacheStatus(estimated_tokens=400_000, reported_tokens=390_000, template="a"))
        ''
        >>> remark(KvCacheStatus(reported_tokens=65_536, template="a"))
        'An engine reports a KV cache of 65,536 tokens.'
    """
    if found is None:
        return ""
    told = f"An engine reports a KV cache of {found.reported_tokens:,} tokens"
    if not found.estimated_tokens:
        return f"{told}."
    off = found.reported_tokens / found.estimated_tokens - 1
    if abs(off) <= DEVIATION:
        return ""
    return f"{told}, {abs(off):.0%} {'more' if off > 0 else 'fewer'} than estimated.".replace("%", " %")


def _told(inputs: Inputs, template: str) -> int | None:
    """By the oldest engine of this template that is ready and has been asked."""
    ready = [pod for pod in inputs.engine_pods if pod.template == template and pod.ready and not pod.terminating]
    ready.sort(key=lambda pod: (str(pod.created), pod.name))
    samples = (inputs.samples.engines[pod.uid].sample for pod in ready if pod.uid in inputs.samples.engines)
    return next((one.kv_cache_tokens for one in samples if one.kv_cache_tokens), None)
