"""Sized: whether an engine fits on its GPUs, by arithmetic that is shown."""

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Device
from inference_operator.planning.disk import DISK_CURE
from inference_operator.sizing.plan import PerGpu, Plan
from inference_operator.status.correction import correction
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
        Reason.INSUFFICIENT_DISK,
        Reason.MODEL_UNKNOWN,
        *UNREADABLE,
    }
)
"""Why a specification is refused for its sizes."""


def sized(facts: Facts) -> Verdict:
    """The computed GPU memory use, or why there is none."""
    if facts.refusal and facts.refusal.reason in SIZE_REASONS:
        return Verdict("False", facts.refusal.reason, facts.refusal.message)
    if facts.inspection:
        return Verdict("Unknown", Reason.INSPECTING_MODEL, "Sizing waits for the inspection of the model.")
    plan = facts.plan
    if plan is None:
        return Verdict("Unknown", Reason.NOT_SIZED, "Nothing has been sized yet.")
    disk = f"{facts.disk_shortfall} {DISK_CURE}" if facts.disk_shortfall else ""
    reported = " ".join(filter(None, (correction(plan), remark(facts.kv_cache), disk)))
    if plan.per_gpu is None:
        return Verdict("Unknown", Reason.PARTLY_ESTIMATED, " ".join(filter(None, (_without_sizing(plan), reported))))
    sentences = " ".join(filter(None, (*_sentences(plan, plan.per_gpu), reported)))
    if plan.unaccounted:
        return Verdict("Unknown", Reason.PARTLY_ESTIMATED, f"{_unaccounted(plan)} {sentences}")
    reason = Reason.CONTEXT_REDUCED if plan.context_reduced else Reason.FITS
    return Verdict("True", reason, sentences)


def _unaccounted(plan: Plan) -> str:
    """What the computation leaves out. It comes first, because the figures after it are only an upper bound."""
    return f"Not counted: {', '.join(plan.unaccounted)}. Its memory reduces the KV cache."


def _without_sizing(plan: Plan) -> str:
    if plan.device is Device.CPU:
        kv_cache = f", of which {plan.kv_cache_bytes / GIB:.1f} GiB for the KV cache" if plan.kv_cache_bytes else ""
        model = "" if plan.weight_bytes else " Nothing is known about the model, so its weights are not counted."
        missing = f" Not counted: {', '.join(plan.unaccounted)}." if plan.unaccounted else ""
        memory = (
            f"On CPUs an engine needs {plan.memory} of memory{kv_cache}. It requests as much, unless"
            " `spec.engine.resources` names another amount. Free memory of nodes is not checked."
        )
        return f"{memory}{model}{missing}"
    size = f"Tensor parallel {plan.parallel.tensor} is as requested; its memory use was not computed."
    return f"{plan.unchecked_reason} {size}"


def _sentences(plan: Plan, per_gpu: PerGpu) -> list[str]:
    group = f"Tensor parallel {plan.parallel.tensor}"
    if plan.parallel.pipeline > 1:
        group += f", pipeline parallel {plan.parallel.pipeline}"
    terms = (
        f"weights {per_gpu.weights_gib:.1f}, activation {per_gpu.activation_gib:.1f},"
        f" non-torch {per_gpu.non_torch_gib:.1f}, CUDA graphs {per_gpu.cuda_graphs_gib:.1f}"
    )
    kv_cache = f"KV cache {per_gpu.kv_cache_gib:.1f} for {per_gpu.kv_cache_tokens:,} tokens"
    longest = f"{per_gpu.max_concurrency_at_full_context:g} requests of {plan.max_model_len:,} tokens"
    sentences = [
        f"{group} on {plan.gpu}: of {per_gpu.requested_gib:.1f} GiB each, {terms}, {kv_cache}.",
        f"That is {longest} at once, or {per_gpu.max_concurrency_at_2048_tokens:g} of 2,048.",
    ]
    if plan.context_reduced:
        sentences.append(
            "That is less than the target of sizing, and no node has a larger group of these GPUs. Larger GPUs or a"
            " quantized model allow more."
        )
    if plan.cpu_offload_gib:
        sentences.append(
            f"{plan.cpu_offload_gib:g} GiB of each GPU's weights stay in host memory: each scheduler iteration, and so"
            f" each token, takes at least {plan.cpu_offload_gib * GIB / HOST_LINK_BYTES_PER_SECOND:.1f} s more."
        )
    if plan.assumptions:
        sentences.append(f"Assumed: {', '.join(plan.assumptions)}.")
    return sentences
