"""Why prompts and answers of a specification cannot be computed apart."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.api.disaggregation import DisaggregationSpec
from inference_operator.api.engine_kind import SpeculativeMethod
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.engines.base import Engine
from inference_operator.engines.kv_transfer import KVTransfer
from inference_operator.engines.options import unsafe_arguments
from inference_operator.models.config import NotUnderstood
from inference_operator.models.facts import ModelFacts
from inference_operator.objects.names import PREFILL
from inference_operator.planning.role_plan import RolePlan
from inference_operator.roles.context import RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sentences import sentences
from inference_operator.settings import Settings
from inference_operator.sizing.disaggregation import kv_path, least_prompt, unsendable
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Objective
from inference_operator.workload.pinned_template import ENGINE_PIN, template_inputs_hash

FIELD = "spec.disaggregation"
_REMOVE = f"Remove it, or remove `{FIELD}`."


def refusal_of_disaggregation(engine: Engine, stated: Spec, settings: Settings, *, image: str) -> Refusal | None:
    if stated.disaggregation is None:
        return None
    if not engine.can_transfer:
        return _refused("spec.engine.kind", "Only vLLM computes prompts and answers apart.")
    asked, parallelism, prefill = stated.engine, stated.parallelism, stated.disaggregation.prefill
    own_sizes = prefill.parallelism
    combined = {
        "spec.router.strategy": (stated.router.strategy is RouterStrategy.EXTERNAL, "Prompts go through the routers."),
        "spec.model.adapters": (bool(stated.model.adapters), _OTHERS.format("Prompts of LoRA adapters")),
        "spec.engine.adapterSlots": (bool(asked.adapter_slots), _OTHERS.format("Prompts of LoRA adapters")),
        "spec.engine.kvOffload": (asked.kv_offload is not None, "vLLM moves KV caches to the host or to engines."),
        "spec.engine.speculative": (
            asked.speculative.method is not SpeculativeMethod.OFF,
            _OTHERS.format("KV caches of drafts"),
        ),
        "spec.parallelism.pipeline": ((parallelism.pipeline or 1) > 1, _ONE_STAGE),
        f"{FIELD}.prefill.parallelism.pipeline": (bool(own_sizes and (own_sizes.pipeline or 1) > 1), _ONE_STAGE),
        "spec.parallelism.nodes": ((parallelism.nodes or 1) > 1, _ON_ONE_NODE),
        "spec.parallelism.data": ((parallelism.data or 1) > 1, _OTHERS.format("KV caches of data parallel ranks")),
    }
    field = next((field for field, (is_set, _) in combined.items() if is_set), "")
    if field:
        return _refused(field, combined[field][1])
    if not settings.engine_keys:
        cure = "Ask the administrator to set `engineKeys`."
        return Refusal(Reason.INVALID_SPEC, FIELD, "Engines need a key to ask each other.", cure)
    own = prefill.engine.args
    return _of_arguments(engine, own) or engine.check_transfer(asked, own, image=image)


_OTHERS = "{} are not sent from engine to engine."
_ONE_STAGE = "KV caches are not sent between engines whose layers are divided into stages."
"""vLLM refuses it for the one that reads (0.32.0, `nixl/base_worker.py`); for the one that gives nobody has run it."""
_ON_ONE_NODE = "Prompts and answers are computed apart on engines on one node."


def _of_arguments(engine: Engine, own: Sequence[str]) -> Refusal | None:
    """Arguments of prefill engines that need a right: the admission policy looks at those of `spec.engine` alone."""
    unsafe = unsafe_arguments(own, engine.option_classes)
    if not unsafe:
        return None
    field = f"{FIELD}.prefill.engine.args[{own.index(unsafe[0])}]"
    problem = "Only arguments that everybody may set can differ from those of `spec.engine.args`."
    return Refusal(Reason.INVALID_SPEC, field, problem, "Remove it, or move it there, for all engines.")


def refusal_of_transfer(
    context: RoleContext, plan: RolePlan, facts: ModelFacts | NotUnderstood | None
) -> Refusal | None:
    """Why the KV cache of a model, as it was planned, cannot be sent; None if it can, or is not to be."""
    transfer = context.spec.transfer
    if transfer is None:
        return None
    if plan.pinned.plan.parallel.nodes > 1:
        return _refused(FIELD, f"{_ON_ONE_NODE} This model needs several.")
    if (stages := plan.pinned.plan.parallel.pipeline) > 1:
        field = "spec.parallelism.pipeline"
        cure = f"Set it to 1, or remove `{FIELD}`."
        return of_prefill(context, Refusal(Reason.INVALID_SPEC, field, f"{_ONE_STAGE} This plan has {stages}.", cure))
    if not isinstance(facts, ModelFacts):
        return None if plan.is_kept else _refused(FIELD, "The model's files are not known, and so not its KV cache.")
    if problem := unsendable(context.engine.as_served(facts, context.spec.stated.engine)):
        return _refused(FIELD, f"{problem} are not sent from engine to engine.")
    if context.spec.computes_prompts or _serves_so(context, plan.pinned, transfer):
        return None
    return _of_network(context.spec.stated, plan.pinned.plan)


def _serves_so(context: RoleContext, plan: PinnedPlan, transfer: KVTransfer) -> bool:
    """Whether the live engines were built from the same request, perhaps by a release that refused no network."""
    pinned = ENGINE_PIN.read(context.live.workload)
    return pinned is not None and pinned.inputs_hash == template_inputs_hash(context.spec.stated, plan, transfer)


def _of_network(stated: Spec, plan: Plan) -> Refusal | None:
    """The refusal of a network that is too slow for the shortest prompt that is sent."""
    apart = stated.disaggregation or DisaggregationSpec()
    path, objective = kv_path(plan, apart), Objective.requested(stated.autoscaling)
    problem = path.problem(least_prompt(plan, apart, objective), objective) if path else ""
    if not problem:
        return None
    cure = f"Name a faster network or its speed, allow a longer `spec.autoscaling.objective.ttft`, or remove `{FIELD}`."
    return Refusal(Reason.INVALID_SPEC, f"{FIELD}.network.gigabitsPerSecond", problem, cure)


def _refused(field: str, problem: str) -> Refusal:
    cure = f"Remove `{FIELD}`." if field == FIELD else _REMOVE
    return Refusal(Reason.INVALID_SPEC, field, problem, cure)


def of_prefill(context: RoleContext, refusal: Refusal) -> Refusal:
    """A refusal of the sizes of prefill engines, which names their own fields."""
    own = context.spec
    if own.name != PREFILL:
        return refusal
    return replace(refusal, problem=sentences("Of the engines that compute prompts:", refusal.problem))
