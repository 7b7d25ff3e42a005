"""Condition Sized: whether an engine fits on its GPUs, by arithmetic that is shown."""

from collections.abc import Iterator
from dataclasses import replace

from inference_operator.api.hardware import Device
from inference_operator.api.reasons import Reason
from inference_operator.autoscaling.inputs import measured_load
from inference_operator.engines.kv_transfer import sent_from
from inference_operator.pipeline.role import Role
from inference_operator.planning.capacity import DISK_CURE
from inference_operator.sentences import sentences
from inference_operator.sizing.budget import TYPICAL_TOKENS
from inference_operator.sizing.disaggregation import sent_in_words
from inference_operator.sizing.learned import Learned
from inference_operator.sizing.plan import PerGpu, Plan
from inference_operator.sizing.serving import Serving, serving_of_plan
from inference_operator.sizing.shape import CONTEXT, SEQUENCES, Objective, ParallelSizes
from inference_operator.status.kv_cache import kv_cache, remark
from inference_operator.status.model_resolved import is_unreadable
from inference_operator.status.observation import ConditionVerdict, Observation, RoleObservation
from inference_operator.status.shared_rules import of_roles
from inference_operator.units import GIB

MILLISECONDS = 1000
FEW_LONGEST = 10
"""Requests of the longest context at once, below which a single one is felt by the others: it takes over a tenth of the
KV cache."""

HOST_LINK_BYTES_PER_SECOND = 31.5e9
"""The most that PCIe 4.0 gives a GPU over 16 lanes (PCI-SIG, PCI Express base specification 4.0); what engines read
from the host takes at least as long."""

SIZE_REASONS = frozenset(
    {
        Reason.INSUFFICIENT_GPU_MEMORY,
        Reason.INVALID_PARALLEL_SIZE,
        Reason.NEEDS_MULTI_NODE,
        Reason.NO_SUITABLE_GPU,
        Reason.NO_SUITABLE_NETWORK,
        Reason.CONTEXT_TOO_LONG,
        Reason.UNSUPPORTED_PRECISION,
        Reason.INSUFFICIENT_DISK,
        Reason.MODEL_UNKNOWN,
    }
)
"""Why a specification is refused for its sizes."""


def sized(observation: Observation) -> ConditionVerdict:
    refusal, inspection = observation.refusal, observation.inspection
    if refusal and (refusal.reason in SIZE_REASONS or is_unreadable(observation)):
        return ConditionVerdict("False", refusal.reason, "Engines cannot be sized.")
    if inspection:
        return ConditionVerdict("Unknown", inspection.reason, "Sizing waits for the inspection of the model.")
    verdicts = {role.name: _of_plan(observation, role, role.plan) for role in observation.roles if role.plan}
    if not verdicts:
        return ConditionVerdict("Unknown", Reason.NOT_SIZED, "Nothing has been sized yet.")
    return of_roles(verdicts)


def not_run(parallel: ParallelSizes) -> str:
    """The sentence about sizes that the project has had no GPUs for; empty for others."""
    if parallel.data == 1:
        return ""
    return "Data parallel ranks with expert parallelism were not run by the project: try them before you rely on them."


def _of_plan(observation: Observation, role: RoleObservation, plan: Plan) -> ConditionVerdict:
    doubt = role.engine.doubt_of_tables(role.pinned.image) if role.pinned else ""
    reported = _reported(observation, role, plan, doubt)
    if plan.per_gpu is None:
        return ConditionVerdict("Unknown", Reason.PARTLY_ESTIMATED, sentences(_unchecked(plan), reported))
    message = sentences(*_figures(plan), reported)
    if plan.unaccounted:  # that comes first, because the figures after it are only an upper bound
        left_out = f"Not counted: {', '.join(plan.unaccounted)}. Its memory reduces the KV cache."
        return ConditionVerdict("Unknown", Reason.PARTLY_ESTIMATED, sentences(left_out, message))
    if doubt:  # the image has another version than the tables
        return ConditionVerdict("Unknown", Reason.PARTLY_ESTIMATED, message)
    return ConditionVerdict("True", Reason.CONTEXT_REDUCED if plan.context_reduced else Reason.FITS, message)


def _reported(observation: Observation, role: RoleObservation, plan: Plan, doubt_of_tables: str) -> str:
    """Sentences about what an engine carries, what engines reported, and the disks of nodes."""
    decided = role.decided
    return sentences(
        decided.sized.doubt if decided else "",
        doubt_of_tables,
        not_run(plan.parallel),
        plan.engine_choice,
        *_capacity(observation, role, plan),
        correction(plan),
        remark(kv_cache(observation, role)),
        _sent(decided, plan) if decided else "",
        *plan.advice,
        f"{decided.disk_shortfall} {DISK_CURE}" if decided and decided.disk_shortfall else "",
    )


def _sent(decided: Role, plan: Plan) -> str:
    """Sentences about the prompts that the engines of a role have others compute; empty for others."""
    spec = decided.context.spec
    apart = spec.stated.disaggregation
    if apart is None or spec.computes_prompts:
        return ""
    sent = sent_from(decided.template.content.template)
    return sent_in_words(plan, apart, Objective.requested(spec.stated.autoscaling), sent)


def _unchecked(plan: Plan) -> str:
    if plan.device is Device.CPU:
        kv_cache = f", of which {plan.kv_cache_bytes / GIB:.1f} GiB for the KV cache" if plan.kv_cache_bytes else ""
        return sentences(
            f"On CPUs an engine needs {plan.memory} of memory{kv_cache}.",
            "It requests as much, unless `spec.engine.resources` names another amount.",
            "Free memory of nodes is not checked.",
            "" if plan.weight_bytes else "Nothing is known about the model, so its weights are not counted.",
            f"Not counted: {', '.join(plan.unaccounted)}." if plan.unaccounted else "",
        )
    size = f"Tensor parallel {plan.parallel.tensor} is as requested; its memory use was not computed."
    return sentences(plan.unchecked_reason, size)


def _figures(plan: Plan) -> Iterator[str]:
    if plan.per_gpu is None or plan.max_model_len is None:
        return
    yield from _memory(plan, plan.per_gpu, plan.max_model_len)
    if plan.context_reduced:
        yield (
            "That is less than the target of sizing, and no node has a larger group of these GPUs. Larger GPUs or a"
            " quantized model allow more."
        )
    elif plan.model_context:
        own = plan.model_context
        yield f"The model's own context is {own:,} tokens; `spec.engine.maxModelLen: {own}` asks for it."
    if plan.cpu_offload_gib:
        seconds = plan.cpu_offload_gib * GIB / HOST_LINK_BYTES_PER_SECOND
        yield (
            f"{plan.cpu_offload_gib:g} GiB of each GPU's weights stay in host memory: each scheduler iteration, and so"
            f" each token, takes at least {seconds:.1f} s more."
        )
    if plan.kv_offload_gib:
        yield f"Each engine keeps {plan.kv_offload_gib:,} GiB of KV cache in the host's memory."
    if plan.video_refused:
        yield "Requests with video are refused, and need no memory; `spec.engine.multimodal.video: true` allows them."
    if plan.assumptions:
        yield f"Assumed: {', '.join(plan.assumptions)}."


def _memory(plan: Plan, per_gpu: PerGpu, context: int) -> Iterator[str]:
    terms = (
        f"weights {per_gpu.weights_gib:.1f}, activation {per_gpu.activation_gib:.1f},"
        f" non-torch {per_gpu.non_torch_gib:.1f}, CUDA graphs {per_gpu.cuda_graphs_gib:.1f}"
    )
    kv_cache = f"KV cache {per_gpu.kv_cache_gib:.1f} for {per_gpu.kv_cache_tokens:,} tokens"
    if not per_gpu.kv_cache_tokens:
        kv_cache = f"{per_gpu.kv_cache_gib:.1f} left, as this model has no KV cache"
    size = f"{plan.parallel.words.capitalize()} on {plan.gpu}"
    yield f"{size}: of {per_gpu.requested_gib:.1f} GiB each, {terms}, {kv_cache}."
    longest = f"{per_gpu.max_concurrency_at_full_context:,g} requests of {context:,} tokens"
    each = " in each data parallel rank" if plan.parallel.data > 1 else ""
    typical = f", or {per_gpu.max_concurrency_at_2048_tokens:,g} of {TYPICAL_TOKENS:,}.{_beside(per_gpu)}"
    yield f"That is {longest} at once{each}{typical if context > TYPICAL_TOKENS else '.'}"


def _beside(per_gpu: PerGpu) -> str:
    """What one request of the longest context leaves to others, in a sentence; empty if it takes little."""
    full, typical = per_gpu.max_concurrency_at_full_context, per_gpu.max_concurrency_at_2048_tokens
    if not 1 <= full < FEW_LONGEST:
        return ""
    return f" While one of the former runs, {typical * (1 - 1 / full):.0f} of the latter fit beside it."


def _capacity(observation: Observation, role: RoleObservation, plan: Plan) -> Iterator[str]:
    """What one engine carries, in sentences; none if the speed of its GPUs is unknown.

    The target is computed for requests of some length. While nothing is decided, it is as recorded.
    """
    engine = serving_of_plan(plan)
    if engine is None:
        return
    target = observation.outcome.targets.get(role.name)
    load = target.load if target else measured_load(role.recorded.autoscaling, None)
    objective = Objective.requested(role.stated.autoscaling) if role.stated else Objective()
    aim = engine.attainable(load, objective)
    served, limit, _ = engine.best(load, aim)
    answer = f" and {load.answer:,.0f} answer" if engine.costs.decodes else ""
    shape = f"requests/s of {load.prompt:,.0f} prompt{answer} tokens"
    source = "; an estimate: no measurement of such a model on this GPU is known" if engine.costs.estimated else ""
    carried = f"One engine carries about {served.requests:.2g} {shape}"
    if aim == objective:
        yield f"{carried} within {_times(aim, engine)} for {aim.percentile} % of them (bound by {limit}{source})."
        return
    yield (
        f"These GPUs are slow for {_times(objective, engine)} for {objective.percentile} % of the requests, so what is"
        f" below twice the time of a lone request is raised to that. {carried} within {_times(_rounded(aim), engine)}"
        f" (bound by {limit}{source}). Relax `spec.autoscaling.objective`, or use faster GPUs or a smaller checkpoint."
    )


def _times(objective: Objective, engine: Serving) -> str:
    each = f" and {objective.tpot * MILLISECONDS:g} ms for each further one" if engine.costs.decodes else ""
    return f"{objective.ttft:g} s to the first token{each}"


def _rounded(aim: Objective) -> Objective:
    """What the model of a step's time is good for: its TTFT is the least exact (`python -m bench.throughput_model`)."""
    return replace(aim, ttft=float(f"{aim.ttft:.1g}"), tpot=float(f"{aim.tpot:.2g}"))


def correction(plan: Plan) -> str:
    """The engine's report and the sizes that follow; empty if the plan was not corrected."""
    learned = plan.learned
    if learned is None:
        return ""
    return (
        f"The first engine did not start: it reported {' and '.join(_reports(learned))}."
        f" So {', and '.join(_changes(plan, learned))}. To choose it yourself, set"
        f" `spec.engine.{SEQUENCES if learned.sequences else CONTEXT}`."
    )


def _reports(learned: Learned) -> Iterator[str]:
    if learned.sequences:
        yield f"that a batch has room for the states of {learned.sequences:,} sequences"
    if learned.longest:
        yield f"that {learned.longest:,} tokens fit"
    if learned.memory_gib:
        yield f"{learned.memory_gib:.1f} GiB more memory in use on each GPU than estimated"


def _changes(plan: Plan, learned: Learned) -> Iterator[str]:
    """The sizes that differ from those of the engine that reported."""
    if plan.gpu != learned.gpu:
        yield f"engines use {plan.gpu} instead of {learned.gpu}"
    if plan.parallel.tensor != learned.tensor:
        yield f"the tensor parallel size was changed from {learned.tensor} to {plan.parallel.tensor}"
    if plan.max_model_len and learned.context is None:
        yield f"the context was limited to {plan.max_model_len:,} tokens"
    elif plan.max_model_len and learned.context and plan.max_model_len < learned.context:
        yield f"the context was reduced from {learned.context:,} to {plan.max_model_len:,} tokens"
    if plan.max_num_seqs and learned.sequences:
        yield f"a batch has at most {plan.max_num_seqs:,} sequences"
    if plan.max_num_batched_tokens and plan.max_num_batched_tokens != learned.batched_tokens:
        yield f"`max_num_batched_tokens` was set to {plan.max_num_batched_tokens:,}"
