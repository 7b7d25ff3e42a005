"""What would need fewer GPUs, or carry more, than a plan: an FP8 KV cache, and quantized checkpoints of the same model.

Both change answers, so they are told and never chosen.
"""

from collections.abc import Iterator
from dataclasses import replace

from inference_operator.api.engine import KvCacheDType
from inference_operator.engines.base import Engine
from inference_operator.models.catalogue import siblings
from inference_operator.models.facts import Attention, ModelFacts
from inference_operator.models.source import HubModel
from inference_operator.planning.engine_plan import ModelFindings, PlanInputs, engine_plan
from inference_operator.planning.known_model import known_model
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.ranking import CLEAR_GAIN
from inference_operator.sizing.serving import TYPICAL_LOAD, serving_of_plan
from inference_operator.sizing.shape import Objective

SLOW_HEAD = 256
"""Elements of a head from which prompts are slower with FP8 keys (vLLM, "The State of FP8 KV-Cache and Attention
Quantization in vLLM", April 2026)."""
LOSS = "vLLM's own tests of such caches kept 94 to 99 % of the scores (April 2026); compare answers first"
"""The same article, by its summary."""


def advice(inputs: PlanInputs, plan: Plan, engine: Engine) -> tuple[str, ...]:
    """Sentences about what needs fewer GPUs than the plan, or carries clearly more on as many; none on CPUs."""
    facts = inputs.model.facts
    if not (plan.per_gpu and plan.gpu and isinstance(facts, ModelFacts)):
        return ()
    inputs = replace(inputs, previous_kind=plan.gpu)
    return (*_of_cache(inputs, facts, plan, engine), *_of_siblings(inputs, plan, engine))


def _of_cache(inputs: PlanInputs, facts: ModelFacts, plan: Plan, engine: Engine) -> Iterator[str]:
    spec = inputs.spec.engine
    stated = spec.kv_cache_dtype is not KvCacheDType.AUTO or plan.kv_cache_dtype or facts.quantization.kv_cache_fp8
    # Windows and large heads are the cases that the article advises against; latent attention needs scales.
    plain = all(_gains(group.attention, group.elements) for group in facts.groups) and facts.kv_heads
    if stated or not plain or "kvCacheDtype" in engine.unsupported_fields:
        return
    asked = spec.model_copy(update={"kv_cache_dtype": KvCacheDType.FP8})
    other = engine_plan(replace(inputs, spec=inputs.spec.model_copy(update={"engine": asked})), engine)
    if isinstance(other, Plan) and (gain := _gain(other, plan, inputs)):
        yield f"`spec.engine.kvCacheDtype: fp8` {gain}; {LOSS}."


def _gains(attention: Attention, elements: int) -> bool:
    return attention is Attention.STATE or (attention is Attention.FULL and elements < 2 * SLOW_HEAD)


def _of_siblings(inputs: PlanInputs, plan: Plan, engine: Engine) -> Iterator[str]:
    if not isinstance(inputs.source, HubModel):
        return
    for name in siblings(inputs.source.repository):
        source, known = HubModel(name), known_model(HubModel(name))
        if known is None or not isinstance(known.facts, ModelFacts):
            continue
        other = engine_plan(replace(inputs, source=source, model=ModelFindings(known, None)), engine)
        if isinstance(other, Plan) and (gain := _gain(other, plan, inputs)):
            yield f"`{name}`, the same model in {known.facts.quantization.kernel.value.split()[0].upper()}, {gain}."
            return


def _gain(other: Plan, plan: Plan, inputs: PlanInputs) -> str:
    """What another plan on such GPUs is better in, in words; empty if in nothing that is worth a change."""
    if other.gpu != plan.gpu or other.context_reduced > plan.context_reduced:
        return ""
    if other.gpus_per_replica < plan.gpus_per_replica:
        return f"would need {other.gpus_per_replica} x {plan.gpu} in place of {plan.gpus_per_replica}"
    carried, carries = _carried(plan, inputs), _carried(other, inputs)
    if other.gpus_per_replica == plan.gpus_per_replica and carries >= CLEAR_GAIN * carried > 0:
        return f"would carry about {carries / carried:.1f} times the requests on the same GPUs"
    if plan.context_reduced and (other.max_model_len or 0) > (plan.max_model_len or 0):
        return f"would have room for {other.max_model_len:,} tokens of context in place of {plan.max_model_len:,}"
    return ""


def _carried(plan: Plan, inputs: PlanInputs) -> float:
    """Typical requests of a second; 0 if the speed of the GPUs is unknown."""
    engine, objective = serving_of_plan(plan), Objective.requested(inputs.spec.autoscaling)
    return engine.best(TYPICAL_LOAD, engine.attainable(TYPICAL_LOAD, objective))[0].requests if engine else 0.0
