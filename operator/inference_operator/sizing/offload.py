"""The host's memory behind the KV cache of an engine: as much as is asked, or a share of what its node has left."""

from dataclasses import replace

from inference_operator.api.reasons import Reason
from inference_operator.sentences import counted
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible

NUMBER_CURE = "Set a number, for example `64Gi`."
MEMORY = "spec.engine.kvOffload.memory"
SHARE = 0.5
"""Part of what a node has left for each engine that `Auto` takes. The rest is for other pods of the node, and for the
files of models that its kernel keeps in memory. This project's choice."""
STEP_GIB = 8
"""What `Auto` takes is a multiple of it, so that nodes that differ a little give the same size."""


def hosted(plan: GpuPlan) -> GpuPlan | Infeasible:
    """The plan with its KV cache in the host's memory, or why its nodes have none for it.

    A fixed size is refused only where nodes are known to have less: a larger one may come.
    """
    shape, offer, host = plan.shape, plan.offer, plan.host
    memory = offer.host_memory_gib
    if not shape.kv_offload_auto:
        if not (shape.kv_offload_gib and memory) or host.memory_gib <= memory:
            return plan
        return _refused(plan, f"{host.memory_gib:.0f} GiB with this cache", "Lower it, or use nodes with more memory.")
    if not memory:
        problem = f"`Auto` needs nodes to choose for, and the memory of nodes with {offer.kind} is not known."
        return Infeasible(Reason.NO_SUITABLE_GPU, MEMORY, problem, NUMBER_CURE)
    gib = STEP_GIB * int(SHARE * (memory / _engines_of_node(plan) - host.memory_gib) // STEP_GIB)
    if gib < STEP_GIB:
        return _refused(plan, f"{host.memory_gib:.0f} GiB without this cache", "Remove it, or use nodes with more.")
    more = {name: getattr(host, name) + gib for name in ("memory_gib", "shared_memory_gib")}
    return replace(plan, shape=replace(shape, kv_offload_gib=float(gib)), host=replace(host, **more))


def _engines_of_node(plan: GpuPlan) -> int:
    return max(1, plan.offer.per_node // plan.shape.parallel.ranks_per_node)


def _refused(plan: GpuPlan, needs: str, cure: str) -> Infeasible:
    offer = plan.offer
    problem = (
        f"Nodes with {offer.per_node} x {offer.kind} have {offer.host_memory_gib:.0f} GiB of memory for pods and GPUs"
        f" for {counted(_engines_of_node(plan), 'such engine')}; the pod of each needs {needs}."
    )
    return Infeasible(Reason.NO_SUITABLE_GPU, MEMORY, problem, cure)
