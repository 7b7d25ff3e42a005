"""Refusals of a requested division of an engine over nodes, independent of memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from inference_operator.api.reasons import Reason
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.fitting import MOST_NODES, Pool
from inference_operator.sizing.gpu_plan import Infeasible
from inference_operator.sizing.shape import ParallelSizes, SizingInputs

TENSOR, NODES, DATA = "spec.parallelism.tensor", "spec.parallelism.nodes", "spec.parallelism.data"
PER_NODE = "If nodes that do not exist yet have more GPUs, set `spec.hardware.gpu.perNode`."
OVER_NODES = f"Set `{NODES}` to divide an engine over several nodes."
OF_SLICES = "MIG slices cannot communicate with each other, so an engine has exactly one."
OF_SHARED = "An engine has exactly one of the GPUs that pods share."


def unequal(inputs: SizingInputs) -> Infeasible | None:
    """Why the ranks of the requested sizes cannot be divided equally over the requested nodes; None if they can.

    vLLM starts as many ranks on each node (0.32.0, `vllm/config/parallel.py`).

    Examples:
        >>> print(unequal(SizingInputs(tensor=3, pipeline=1, nodes=2)).message)
        spec.parallelism.nodes: 3 ranks (tensor parallel 3) cannot be divided equally over 2 nodes. Use 1, or 3, or \
change `spec.parallelism.tensor` or `.pipeline`.
    """
    parallel, nodes = inputs.requested_shape.parallel, inputs.nodes
    if parallel.data > 1:
        return _divided_data(parallel)
    ranks = parallel.world_size
    if nodes is None or inputs.tensor is None or ranks % nodes == 0:
        return None
    problem = f"{ranks} ranks ({replace(parallel, nodes=1).words}) cannot be divided equally over {nodes} nodes."
    fit = listed([str(count) for count in range(1, ranks + 1) if ranks % count == 0])
    return _invalid(NODES, problem, f"Use {fit}, or change `{TENSOR}` or `.pipeline`.")


def _divided_data(parallel: ParallelSizes) -> Infeasible | None:
    if parallel.pipeline > 1:
        problem = f"{parallel.data} data parallel ranks and {parallel.pipeline} stages are requested together."
        return _invalid(DATA, problem, f"Use one of `{DATA}` and `.pipeline`.")
    if parallel.data % parallel.nodes == 0:
        return None
    problem = f"{parallel.data} data parallel ranks cannot be divided equally over {parallel.nodes} nodes."
    return _invalid(DATA, problem, f"Use a multiple of {parallel.nodes}, or change `{NODES}`.")


def without_experts(facts: ModelFacts, inputs: SizingInputs) -> Infeasible | None:
    """Why a model without routed experts gets no data parallel ranks; None for other models and requests.

    Its ranks would have nothing in common. vLLM refuses such ranks where each has its own load balancer (0.32.0,
    `engine/arg_utils.py`).

    Examples:
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.model import model_facts
        >>> print(without_experts(model_facts(entry("Qwen/Qwen3-8B").config), SizingInputs(data=2)).message)
        spec.parallelism.data: Data parallel ranks share routed experts, and this model has none. Leave it out, and \
set `spec.replicas` to 2.
    """
    if inputs.data == 1 or facts.experts:
        return None
    problem = "Data parallel ranks share routed experts, and this model has none."
    return _invalid(DATA, problem, f"Leave it out, and set `spec.replicas` to {inputs.data}.")


def impossible(pools: Sequence[Pool], inputs: SizingInputs) -> Infeasible | None:
    nodes = inputs.nodes or 1
    spanning = [pool for pool in pools if pool.offer.can_span(nodes)]
    if not spanning:
        return _too_few_nodes(pools, nodes)
    if any(_held(pool, inputs) for pool in spanning):
        return None
    if nodes > 1:
        return _too_few_gpus(spanning, inputs, nodes)
    return _too_large(spanning, inputs)


def _held(pool: Pool, inputs: SizingInputs) -> bool:
    """Whether some number of its nodes has a GPU for each rank of the smallest group that is requested."""
    ranks = inputs.requested_shape.parallel.world_size
    return any(ranks <= pool.offer.most_in_a_group * nodes for nodes in _numbers_of_nodes(pool, inputs))


def _numbers_of_nodes(pool: Pool, inputs: SizingInputs) -> Iterator[int]:
    stages = inputs.pipeline
    if inputs.nodes or stages is None or inputs.data > 1 or not pool.divides_layers(inputs):
        yield inputs.nodes or 1
        return
    yield from (nodes for nodes in range(1, MOST_NODES + 1) if stages % nodes == 0 and pool.offer.can_span(nodes))


def _too_few_nodes(pools: Sequence[Pool], nodes: int) -> Infeasible:
    offers = [pool.offer for pool in pools]
    if all(offer.slice or offer.shared for offer in offers):
        problem = OF_SLICES if all(offer.slice for offer in offers) else OF_SHARED
        return _invalid(NODES, problem, "Use 1, or leave it out.")
    most = max(offer.fixed_nodes or 1 for offer in offers)
    kinds = ", ".join(sorted({f"{offer.per_node} {offer.kind}" for offer in offers}))
    problem = (
        f"{nodes} nodes with GPUs of one kind are requested, and no more than {most} exist (GPUs of a node: {kinds})."
        " The operator's setting `capacity` rules out new ones."
    )
    return _invalid(NODES, problem, f"Use at most {most}, leave it out, or add nodes.")


def _too_few_gpus(pools: Sequence[Pool], inputs: SizingInputs, nodes: int) -> Infeasible:
    ranks, most = inputs.requested_shape.parallel.world_size, max(pool.offer.most_in_a_group for pool in pools)
    problem = f"{ranks} GPUs over {nodes} nodes are more than {most} on each, and no node has more."
    other = ".pipeline" if inputs.data == 1 else ".data"
    stage = " Without `.pipeline` each node has a stage." if inputs.pipeline is None and inputs.data == 1 else ""
    return _invalid(NODES, problem, f"Use more nodes, or smaller `{TENSOR}` and `{other}`.{stage}")


def _too_large(pools: Sequence[Pool], inputs: SizingInputs) -> Infeasible:
    ranks, most = inputs.requested_shape.parallel.world_size, max(pool.offer.most_in_a_group for pool in pools)
    field = TENSOR if inputs.data == 1 or (inputs.tensor or 1) > most else DATA
    if all(pool.offer.slice for pool in pools):
        return _invalid(field, OF_SLICES, f"Use at most {most}, or leave it out.")
    problem = f"{ranks} GPUs are requested, and no node has more than {most}."
    more = f" {PER_NODE}" if inputs.kinds else ""
    whole = any(pool.offer.can_span(2) and pool.divides_layers(inputs) for pool in pools)
    fewer = f"Use at most {most // (inputs.tensor or 1)}" if field == DATA else f"Use at most {most}"
    return _invalid(field, problem, f"{fewer}, or leave it out.{f' {OVER_NODES}' if whole else ''}{more}")


def _invalid(field: str, problem: str, cure: str) -> Infeasible:
    return Infeasible(Reason.INVALID_PARALLEL_SIZE, field, problem, cure)


def listed(words: Sequence[str]) -> str:
    """The alternatives in words.

    Examples:
        >>> listed(["1"]), listed(["1", "2"]), listed(["1", "2", "4"])
        ('1', '1, or 2', '1, 2, or 4')
    """
    return ", or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))
