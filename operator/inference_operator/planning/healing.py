"""Which plan is decided once more, because its engine reported that its memory does not suffice.

All of these rules apply:

- The plan has not been corrected before. So a specification gets at most one correction.
- The live workload has this very plan, and a pod of its template ended before it was ready. Pods of earlier templates
  say nothing about this plan.
- No engine of this template serves. Engines that serve are never replaced.
- The termination message or the log reports a shortage: a KV cache that is too small for a request or for the states
  of a batch, or a GPU that ran out of memory before the KV cache was allocated.
- The shortage has figures from which a correction follows.

The pipeline decides the plan again with the correction. A number that the user requests never changes. If no other
sizes follow, or only sizes without a check for a plan that was checked, the plan stays, and status shows the engine's
error with its cure.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter

from inference_operator.engines.base import Engine
from inference_operator.sizing.learned import Learned, Shortage
from inference_operator.sizing.plan import Plan
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import LogText, LookupResults
from inference_operator.views.pod import PodView

DIGITS = 2


def learned_from(
    plan: Plan, engines: Iterable[EngineView], lookups: LookupResults, engine: Engine, *, template: str | None
) -> Learned | None:
    if plan.learned is not None or template is None:
        return None
    own = [view for view in engines if view.template == template]
    if any(view.has_answered for view in own):
        return None
    pods = (pod for view in own for pod in view.pods)
    shortages = (shortage for pod in pods for text in ended_output(pod, lookups) if (shortage := engine.shortage(text)))
    return next((correction for shortage in shortages if (correction := _correction(plan, shortage))), None)


_LENGTHS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")
_SIZES = attrgetter("gpu", "resource", "parallel", *_LENGTHS, "gpu_memory_utilization", "kv_cache_bytes")


def same_sizes(plan: Plan, other: Plan) -> bool:
    return bool(_SIZES(plan) == _SIZES(other))


def ended_output(pod: PodView, lookups: LookupResults) -> Iterator[str]:
    """The output of a terminated container: its log, and its termination message, which is the end of the log."""
    ended = pod.problem.terminated if pod.problem else None
    if ended is None or ended.log.container != pod.component:
        return
    log = lookups.get(ended.log)
    if isinstance(log, LogText):
        yield log.text
    yield ended.message


def _correction(plan: Plan, shortage: Shortage) -> Learned | None:
    memory = _beyond_estimate(plan, shortage)
    if shortage.longest is None and shortage.sequences is None and not memory:
        return None
    return Learned(
        gpu=plan.gpu,
        tensor=plan.parallel.tensor,
        pipeline=plan.parallel.pipeline if plan.parallel.nodes > 1 else 1,
        nodes=plan.parallel.nodes,
        context=shortage.context or plan.max_model_len,
        batched_tokens=plan.max_num_batched_tokens,
        longest=shortage.longest,
        memory_gib=memory,
        kv_cache_bytes=plan.kv_cache_bytes,
        sequences=shortage.sequences,
    )


def _beyond_estimate(plan: Plan, shortage: Shortage) -> float:
    """GiB that the engine used on one GPU beyond the estimate; 0 where neither is known."""
    estimate = plan.per_gpu
    if estimate is None:
        return 0.0
    if shortage.kv_cache_gib is not None:
        return round(max(0.0, estimate.kv_cache_gib - shortage.kv_cache_gib), DIGITS)
    if shortage.used_gib is not None:
        expected = estimate.weights_gib + estimate.activation_gib + estimate.non_torch_gib
        return round(max(0.0, shortage.used_gib - expected), DIGITS)
    return 0.0
