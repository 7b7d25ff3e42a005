"""`infd plan`: the sizes that the operator would give engines, and the arithmetic behind them."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import ConditionType
from inference_operator.api.status import PlanStatus
from inference_operator.cli.files import documents
from inference_operator.cli.gpus import settings_with
from inference_operator.cli.mistake import MistakeError
from inference_operator.cli.offline import (
    add_source,
    model_of,
    name_of,
    offline_inputs,
    why_nothing,
)
from inference_operator.cli.output import add_output, dumped, table
from inference_operator.manifest import NODE, Manifest
from inference_operator.observed.node import NodeView, node_view
from inference_operator.pipeline import Inputs, outcome
from inference_operator.planning.gpu_offers import has_gpus
from inference_operator.status.report import report

HEAD = ("NAME", "GPU", "TENSOR", "PIPELINE", "GPUS", "CONTEXT", "SEQS", "USED", "KV TOKENS")


@dataclass(frozen=True, slots=True)
class Planning:
    """What would become of one resource."""

    name: str
    """With its namespace before it, if one is stated."""
    refused: bool
    message: str
    """The sizes in a sentence, or why there are none."""
    plan: PlanStatus | None

    def document(self) -> Manifest:
        """As an object, with the plan as status would show it."""
        shown = self.plan.model_dump(mode="json", by_alias=True, exclude_none=True) if self.plan else None
        namespace, _, name = self.name.rpartition("/")
        called = {"namespace": namespace, "name": name} if namespace else {"name": name}
        return {**called, "planned": not self.refused, "message": self.message, "plan": shown}


def add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The arguments of `infd plan`."""
    plan = commands.add_parser(
        "plan",
        help="the sizes that InferenceDeployments would get, and why",
        description="The same decision as the operator's, for new resources: on the GPUs that --gpu names, or on the"
        " nodes of the cluster of the current kubeconfig.",
    )
    add_source(plan)
    plan.add_argument("--cluster", action="store_true", help="for the nodes of the current kubeconfig's cluster")
    add_output(plan)
    plan.add_argument("-v", "--verbose", action="store_true", help="the arithmetic of one GPU, with origins")
    plan.set_defaults(run=run_plan)


def run_plan(options: argparse.Namespace) -> int:
    """Plan every resource of the file; 1 if one of them is refused."""
    settings = settings_with(options.gpu)
    nodes = asyncio.run(_cluster_nodes()) if options.cluster else None
    model = model_of(options.model)
    inputs = [(name_of(one), offline_inputs(one, settings, nodes, model)) for one in documents(options.filename)]
    found = [_planning(name, one) for name, one in inputs]
    if options.output != "table":
        print(dumped([one.document() for one in found], options.output))
        return int(any(one.refused for one in found))
    print("\n".join(_lines(found, verbose=options.verbose)))
    for one in found:
        if one.refused:
            print(f"{one.name}: {one.message}", file=sys.stderr)
    return int(any(one.refused for one in found))


def _planning(name: str, inputs: Inputs) -> Planning:
    result = outcome(inputs)
    if why := why_nothing(result):
        return Planning(name, refused=True, message=why, plan=None)
    status = report(inputs, result, []).status
    sized = status.condition(ConditionType.SIZED)
    return Planning(name, refused=False, message=sized.message if sized else "", plan=status.plan)


def _lines(found: Sequence[Planning], *, verbose: bool) -> Iterator[str]:
    yield from table([HEAD, *(_row(one) for one in found)])
    for one in found:
        if not one.refused:
            yield f"{one.name}: {one.message}"
        if verbose and one.plan:
            yield from _arithmetic(one.name, one.plan)


def _row(one: Planning) -> Sequence[str]:
    plan = one.plan
    if plan is None:
        return (one.name, "no")
    return (
        one.name,
        plan.gpu or plan.device,
        str(plan.tensor_parallel_size),
        str(plan.pipeline_parallel_size),
        str(plan.gpus_per_replica),
        _number(plan.max_model_len),
        _number(plan.max_num_seqs),
        "-" if plan.gpu_memory_utilization is None else f"{plan.gpu_memory_utilization:g}",
        _number(plan.per_gpu.kv_cache_tokens if plan.per_gpu else None),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _arithmetic(name: str, plan: PlanStatus) -> Iterator[str]:
    found = plan.per_gpu
    yield ""
    yield f"{name}: requests of one engine: {plan.cpu} CPUs, memory {plan.memory}, disk {plan.ephemeral_storage}"
    if found is None:
        return
    yield f"one {plan.gpu}: {found.memory_gib:.2f} GiB, of which vLLM may use {found.offered_gib:.2f}"
    terms = {
        "weights": found.weights_gib,
        "activation": found.activation_gib,
        "non-torch": found.non_torch_gib,
        "CUDA graphs": found.cuda_graphs_gib,
        "KV cache": found.kv_cache_gib,
    }
    for term, gib in terms.items():
        yield f"  {term:<12} {gib:>9.2f} GiB   {found.origins.get(term, '')}".rstrip()
    yield f"  a token adds {found.kv_token_bytes:,} bytes; {found.headroom_gib:.2f} GiB are left beside one sequence"


async def _cluster_nodes() -> Sequence[NodeView]:
    """The nodes with GPUs of the current kubeconfig's cluster."""
    from inference_operator.kube.client import Api, connect  # noqa: PLC0415 - a second of imports that only this needs
    from inference_operator.kube.cluster import KubeCluster  # noqa: PLC0415 - as above
    from inference_operator.reconcile.cluster import ClusterError  # noqa: PLC0415 - as above

    logging.getLogger("kubernetes").setLevel(logging.CRITICAL)  # what it logs is said below, in words for users
    try:
        client = await connect()
        try:
            views = [node_view(one) async for one in KubeCluster(Api(client)).each(NODE)]
        finally:
            await client.close()  # type: ignore[no-untyped-call]
    except ClusterError as error:
        check = "`kubectl get nodes` must answer with the same kubeconfig."
        raise MistakeError(f"--cluster: {error.cause}. {check}") from error
    return [view for view in views if has_gpus(view)]
