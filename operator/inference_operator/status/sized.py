"""Sized: whether an engine fits on its GPUs, by arithmetic that is shown."""

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Device
from inference_operator.sizing.plan import PerGpu, Plan
from inference_operator.status.facts import Facts
from inference_operator.status.kv_cache import remark
from inference_operator.status.model_resolved import UNREADABLE
from inference_operator.status.verdict import Verdict
from inference_operator.units import GIB

HOST_LINK_BYTES_PER_SECOND = 31.5e9
"""The most that PCIe 4.0 gives a GPU over 16 lanes (PCI-SIG, PCI Express base specification 4.0); what engines read
from the host takes at least as long."""

SIZE_REASONS = frozenset(
    {
        Reason.INSUFFICIENT_GPU_MEMORY,
        Reason.INVALID_PARALLEL_SIZE,
        Reason.NEEDS_MULTI_NODE,
        Reason.NO_SUITABLE_GPU,
        Reason.CONTEXT_TOO_LONG,
        Reason.MODEL_UNKNOWN,
        *UNREADABLE,
    }
)
"""Why a specification is refused for its sizes."""


def sized(facts: Facts) -> Verdict:
    """Tell the sizes, or why there are none."""
    if facts.refusal and facts.refusal.reason in SIZE_REASONS:
        return Verdict("False", facts.refusal.reason, facts.refusal.message)
    if facts.inspection:
        return Verdict("Unknown", Reason.INSPECTING_MODEL, "Sizes are counted once the model is known.")
    plan = facts.plan
    if plan is None:
        return Verdict("Unknown", Reason.NOT_SIZED, "Nothing has been sized yet.")
    told = remark(facts.kv_cache)
    if plan.per_gpu is None:
        return Verdict("Unknown", Reason.PARTLY_ESTIMATED, " ".join(filter(None, (_not_counted(plan), told))))
    sentences = " ".join(filter(None, (*_sentences(plan, plan.per_gpu), told)))
    if plan.uncounted:
        return Verdict("Unknown", Reason.PARTLY_ESTIMATED, f"{_uncounted(plan)} {sentences}")
    reason = Reason.CONTEXT_REDUCED if plan.context_reduced else Reason.FITS
    return Verdict("True", reason, sentences)


def _uncounted(plan: Plan) -> str:
    """What is missing from the arithmetic, first, since the rest is no more than a bound."""
    return f"Not counted: {', '.join(plan.uncounted)}. What it takes is taken from the KV cache."


def _not_counted(plan: Plan) -> str:
    if plan.device is Device.CPU:
        given = f", of which {plan.kv_cache_bytes / GIB:.1f} GiB for the KV cache" if plan.kv_cache_bytes else ""
        model = "" if plan.weight_bytes else " Nothing is known of the model, so its weights are not counted."
        missing = f" Not counted: {', '.join(plan.uncounted)}." if plan.uncounted else ""
        return f"On CPUs an engine requests {plan.memory} of memory{given}; nodes are not looked at.{model}{missing}"
    return f"{plan.unchecked} Tensor parallel {plan.parallel.tensor} is as asked; nothing was counted."


def _sentences(plan: Plan, found: PerGpu) -> list[str]:
    group = f"Tensor parallel {plan.parallel.tensor}"
    if plan.parallel.pipeline > 1:
        group += f", pipeline parallel {plan.parallel.pipeline}"
    terms = (
        f"weights {found.weights_gib:.1f}, activation {found.activation_gib:.1f}, non-torch {found.non_torch_gib:.1f},"
        f" CUDA graphs {found.cuda_graphs_gib:.1f}"
    )
    held = f"KV cache {found.kv_cache_gib:.1f} for {found.kv_cache_tokens:,} tokens"
    longest = f"{found.longest_requests:g} requests of {plan.max_model_len:,} tokens"
    told = [
        f"{group} on {plan.gpu}: of {found.offered_gib:.1f} GiB each, {terms}, {held}.",
        f"That is {longest} at once, or {found.typical_requests:g} of 2,048.",
    ]
    if plan.context_reduced:
        told.append(
            "That is less than sizing aims at, since no larger group of these GPUs is on a node; larger GPUs or a"
            " quantised model give more."
        )
    if plan.cpu_offload_gib:
        told.append(
            f"{plan.cpu_offload_gib:g} GiB of each GPU's weights stay in the host's memory: each step takes at least"
            f" {plan.cpu_offload_gib * GIB / HOST_LINK_BYTES_PER_SECOND:.1f} s more, which is the time of one token."
        )
    if plan.assumptions:
        told.append(f"Assumed: {', '.join(plan.assumptions)}.")
    return told
