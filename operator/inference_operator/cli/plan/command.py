"""`infd plan`: the sizes that the operator would choose for engines; `infd render`: the objects it would create."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_jsonable_python

from inference_operator.admission.rights import Requirement, required_rights
from inference_operator.api.json_names import json_name
from inference_operator.api.reasons import ConditionType
from inference_operator.api.refusal import Refusal
from inference_operator.cli.arguments import settings_with
from inference_operator.cli.files import documents, stored
from inference_operator.cli.offline import model_of, name_of, offline_inputs, why_nothing
from inference_operator.cli.operator_settings import LiveState
from inference_operator.cli.output import dump, manifests_text, print_found, shown, table
from inference_operator.cli.parser import EXIT_REFUSED, UsageError, harmless
from inference_operator.engines.options import OptionClasses
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.stored_plan import flat_fields
from inference_operator.status.report import report

HEAD = ("NAME", "GPU", "TENSOR", "PIPELINE", "GPUS", "CONTEXT", "SEQS", "USED", "KV TOKENS")


@dataclass(frozen=True, slots=True)
class Planning:
    name: str
    message: str
    plan: Plan | None = None
    """None: it is refused."""
    model: str = ""
    rights: tuple[Requirement, ...] = ()
    mistakes: tuple[Refusal, ...] = ()
    engine: str = ""
    notices: Mapping[str, str] = field(default_factory=dict)
    """What becomes of the plan that runs, known vulnerabilities of the engine's version, and that users with keys share
    a cache of prefixes; each by its key for programs, and empty if there is nothing to say."""

    def document(self) -> Manifest:
        namespace, _, name = self.name.rpartition("/")
        optional = {
            "engine": self.engine,
            "errors": [{"field": one.field, "problem": one.problem, "cure": one.cure} for one in self.mistakes],
            **self.notices,
        }
        return {
            **({"namespace": namespace} if namespace else {}),
            "name": name,
            "planned": self.plan is not None,
            "message": self.message,
            "model": self.model,
            **{name: value for name, value in optional.items() if value},
            "rights": [{"field": one.field, "anyOf": [str(right) for right in one.any_of]} for one in self.rights],
            "plan": to_jsonable_python(_shown(flat_fields(self.plan))) if self.plan else None,
        }


def _shown(fields: Manifest) -> Manifest:
    """The fields that have a value, under the names that status would give them."""
    return {
        json_name(name): _shown(value) if name in ("per_gpu", "learned") else value
        for name, value in fields.items()
        if value not in (None, "", [], (), {}) and value is not False
    }


def run(options: argparse.Namespace) -> int:
    engines = options.engines or ENGINES
    if options.in_namespace and not options.diff:
        raise UsageError("--namespace: only with --diff.")
    if options.diff:
        from inference_operator.cli.plan.diff import run_diff  # noqa: PLC0415 - only with a cluster

        if options.gpu or options.model:
            raise UsageError("--diff takes GPUs and models from the cluster: leave out --gpu and --model.")
        return run_diff(options)
    settings, cluster = settings_with(options.gpu), LiveState()
    if options.cluster:
        from inference_operator.cli.plan.cluster import cluster_of_kubeconfig  # noqa: PLC0415 - only with a cluster

        cluster = cluster_of_kubeconfig(options)
    model = model_of(options.model)
    nodes, stored_models = cluster.nodes, cluster.stored_models
    plannings = []
    for document in documents(options.filename):
        own = cluster.with_policy(settings, document)
        inputs = offline_inputs(document, own, engines, nodes=nodes, model=model, stored_models=stored_models)
        plannings.append(_planning(document, inputs, engines.option_classes, cluster.plans_of(document)))
    lines = _lines(plannings, verbose=options.verbose)
    print_found([planning.document() for planning in plannings], options.output, lines)
    refused = [planning for planning in plannings if planning.plan is None]
    for planning in refused if options.output == "table" else ():
        print(harmless(f"{planning.name}: {planning.message}"), file=sys.stderr)
    return EXIT_REFUSED if refused else 0


def _planning(
    document: Manifest, inputs: Inputs, options: Mapping[str, OptionClasses], live: Mapping[str, PinnedPlan]
) -> Planning:
    name, result = name_of(document), outcome(inputs)
    if not isinstance(result, Planned):
        mistakes = result.refusal.mistakes if isinstance(result, Refused) else ()
        return Planning(name, why_nothing(result), mistakes=mistakes)
    status = report(inputs, result, []).status
    conditions = map(status.condition, (ConditionType.SIZED, ConditionType.MODEL_RESOLVED))
    message, model = (each.message if each else "" for each in conditions)
    asked = stored(document["spec"])
    return Planning(
        name,
        message,
        result.plan.plan,
        model,
        rights=required_rights(asked, options) if isinstance(asked, dict) else (),
        engine=result.plan.engine,
        notices={
            "change": "; ".join(filter(None, (_change(live.get(role.name), role.plan) for role in result.roles))),
            "advisories": result.advisories,
            "sharedPrefixes": " ".join(dict.fromkeys(filter(None, (role.shared_prefixes for role in result.roles)))),
        },
    )


def _change(live: PinnedPlan | None, new: PinnedPlan) -> str:
    if live is None:
        return ""
    now, then = _sizes(live.plan), _sizes(new.plan)
    if live.spec_hash == new.spec_hash and live.engine == new.engine:
        stays = f"runs with {now}, and stays so: its plan is pinned"
        return stays if now == then else f"{stays}; a new resource would get {then}"
    if live.engine != new.engine:
        return f"runs with {now} on {live.engine}; this edit is a rolling update to {then} on {new.engine}"
    why = f" (sizing rules {live.rules}, now {new.rules})" if live.rules != new.rules else ""
    return f"runs with {now}; this edit plans anew: {then}{why}"


def _sizes(plan: Plan) -> str:
    return f"{plan.gpus_per_replica} x {plan.gpu or plan.device} ({plan.parallel.words})"


def _lines(plannings: Sequence[Planning], *, verbose: bool) -> Iterator[str]:
    yield from table([HEAD, *(_row(planning) for planning in plannings)])
    for planning in plannings:
        if plan := planning.plan:
            yield from (f"{planning.name}: {line}" for line in _said(planning, plan, verbose=verbose))
            if verbose:
                yield from _memory(planning.name, plan)


def _said(planning: Planning, plan: Plan, *, verbose: bool) -> Iterator[str]:
    yield planning.message
    yield from filter(None, planning.notices.values())
    if plan.adapter_slots:
        price = f", of {plan.adapter_slot_gib:g} GiB each on each GPU" if plan.adapter_slot_gib and plan.gpu else ""
        yield (
            f"{plan.adapter_slots} slots for adapters of rank {plan.adapter_rank} or less{price}; a larger adapter,"
            " another number of slots, and the first and the last adapter restart the engines"
        )
    fields: dict[str, list[str]] = {}
    for need in planning.rights:
        fields.setdefault(" or ".join(map(str, need.any_of)), []).append(need.field)
    for rights, asking in fields.items():
        yield f"who applies it needs the right to {rights}, for {', '.join(asking)}"
    if verbose:
        yield planning.model
        if plan.runner_up:
            yield f"runner-up: {plan.runner_up}"


def _row(planning: Planning) -> Sequence[str]:
    plan = planning.plan
    if plan is None:
        return (planning.name, "-")
    return (
        planning.name,
        plan.gpu or plan.device,
        str(plan.parallel.tensor),
        str(plan.parallel.pipeline),
        _gpus(plan),
        shown(plan.max_model_len),
        shown(plan.max_num_seqs),
        shown(plan.gpu_memory_utilization, "{:.2g}"),
        shown(plan.per_gpu.kv_cache_tokens if plan.per_gpu else None),
    )


def _gpus(plan: Plan) -> str:
    """GPUs of one engine; with its nodes before them, if it has several: `2x8`."""
    return f"{plan.parallel.nodes}x{plan.gpus_per_pod}" if plan.parallel.nodes > 1 else str(plan.gpus_per_replica)


def _memory(name: str, plan: Plan) -> Iterator[str]:
    gpu = plan.per_gpu
    yield ""
    each = "one engine" if plan.parallel.nodes == 1 else f"each of the {plan.parallel.nodes} pods of one engine"
    yield f"{name}: requests of {each}: {plan.cpu} CPUs, memory {plan.memory}, disk {plan.ephemeral_storage}"
    if gpu is None:
        return
    yield f"one {plan.gpu}: {gpu.memory_gib:.2f} GiB, the engine may use {gpu.requested_gib:.2f} GiB"
    terms = {
        "weights": gpu.weights_gib,
        "activation": gpu.activation_gib,
        "non-torch": gpu.non_torch_gib,
        "CUDA graphs": gpu.cuda_graphs_gib,
        "KV cache": gpu.kv_cache_gib,
    }
    for term, gib in terms.items():
        yield f"  {term:<12} {gib:>9.2f} GiB   {gpu.origins.get(term, '')}".rstrip()
    yield f"  KV cache per token: {gpu.kv_token_bytes:,} bytes; beyond one sequence: {gpu.headroom_gib:.2f} GiB"


def render(options: argparse.Namespace) -> int:
    engines = options.engines or ENGINES
    settings, model, status = settings_with(options.gpu), model_of(options.model), 0
    made: list[Manifest] = []
    for document in documents(options.filename):
        result = outcome(offline_inputs(document, settings, engines, model=model))
        if why := why_nothing(result):
            print(f"{name_of(document)}: {why}", file=sys.stderr)
            status = EXIT_REFUSED
        else:
            made += result.desired.values()
    print(dump(made) if options.output == "yaml" else f"{manifests_text(made, options.output)}\n", end="")
    return status
