"""Generates docs/reference/models.md: public models on kinds of GPUs, sized as the operator sizes them."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from inference_operator.api.engine import EngineSpec
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.api.reasons import Reason
from inference_operator.cli.arguments import named_gpus
from inference_operator.engines.registry import ENGINES
from inference_operator.models.catalogue import entry, names
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import entry_facts
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.choice import choose
from inference_operator.sizing.fitting import MOST_NODES
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.serving import TYPICAL_LOAD, serving
from inference_operator.sizing.shape import Objective, Shape, SizingInputs
from inference_operator.units import GIB

KINDS = ("L4", "A10G", "RTX-4090", "L40S", "A100-40GB", "A100-80GB", "H100", "H200", "B200")
PER_NODE = 8
THOUSAND = 1024
ONE_AT_A_TIME = "one request at a time"
TOO_LARGE, NO_KERNELS = "too large", "no kernels"

INTRODUCTION = f"""\
# Models on GPUs
What the operator plans for public models on nodes with {PER_NODE} GPUs of one kind, if a resource sets nothing but
`model.source`. `infd fit MODEL --gpu KIND:{PER_NODE}` shows the same with all terms of the memory. The figures are
computed, not measured; [sizing](../explanation/sizing.md) says how exact they are.

A cell: GPUs of an engine (tensor x pipeline parallel size, if there is a pipeline) · context in tokens (k = 1,024) ·
`max_num_seqs` · KV cache of one GPU in GiB · requests per second of one engine. Encoders have no KV cache. *2 nodes of
8* are 16 GPUs of an engine for which one node is too small.
A request has 1,732 tokens of prompt and 316 of answer; its first token comes within 2 s and each further one within
50 ms. *~* marks an estimate: nothing of that kind was measured on such a GPU. *too slow*: not even one request at a
time keeps these latencies.
*{TOO_LARGE}*: it does not fit on {MOST_NODES} nodes either. *{NO_KERNELS}*: these GPUs cannot compute its weights or
its attention.

*Engines*: those that know the model, in the order in which `engine.kind: Auto` takes them; it never takes SGLang.
*implementation of transformers* and *one at a time* are explained in [Which engine](../how-to/engines.md). The sizes
are those of the first.

Weights are those of the checkpoint; *counted* means: computed from the config.
The models are those of the catalogue, which `infd fit` knows without a hub. `infd fit NAME -o json` and
`operator/inference_operator/models/catalogue.json` name the source of each config. `make crd` generates this page.

| model | weights | engines | {" | ".join(KINDS)} |
|---|---|---|{"---|" * len(KINDS)}
"""

RECIPES = Path(__file__).parents[1] / "bench" / "data" / "recipes.json"
"""The models of vLLM's recipes, which `python -m bench.recipes` writes."""
MISSING = """
## Not in the catalogue
Models of vLLM's recipes ({source}) that are not in the catalogue, because no public source was found that has their
whole config, or because they generate no text. The operator reads such a model's own files; without the hub `infd fit`
and `infd plan` need `--model FILE`, an output of `infd inspect`.

{lines}"""


def models() -> Iterator[tuple[str, ModelFacts | NotUnderstood]]:
    """Name and facts of each model of the catalogue."""
    for name in names():
        if known := entry(name):
            yield name, entry_facts(known)


def plans(
    profile: EngineProfile = EngineProfile.BALANCED,
) -> dict[str, tuple[ModelFacts | NotUnderstood, dict[str, GpuPlan | Infeasible]]]:
    """The plan of each model on each kind of GPU."""
    return _plans(profile)


@cache
def _plans(profile: EngineProfile) -> dict[str, tuple[ModelFacts | NotUnderstood, dict[str, GpuPlan | Infeasible]]]:
    """Has no default: a cache takes a call with it and one without it for two."""
    engine = ENGINES[ENGINES.default]
    offers = {kind: named_gpus(f"{kind}:{PER_NODE}") for kind in KINDS}
    found: dict[str, tuple[ModelFacts | NotUnderstood, dict[str, GpuPlan | Infeasible]]] = {}
    for name, facts in models():
        own = {}
        if isinstance(facts, ModelFacts):
            served = engine.as_served(facts, EngineSpec(), name)
            own = {
                k: choose(
                    served,
                    [o],
                    lambda offer: engine.on_gpus("", offer),
                    SizingInputs(profile=profile),
                )
                for k, o in offers.items()
            }
        found[name] = facts, own
    return found


def page() -> str:
    """The page."""
    return INTRODUCTION + "".join(_row(name, *one) for name, one in plans().items()) + _missing()


def _missing() -> str:
    """The models of vLLM's recipes that the catalogue lacks, by organisation."""
    recipes = json.loads(RECIPES.read_text(encoding="utf-8"))
    owners: dict[str, list[str]] = {}
    for recipe in recipes["models"]:
        if entry(recipe["model"]) is None:
            owner, _, model = recipe["model"].partition("/")
            owners.setdefault(owner, []).append(model)
    lines = "".join(f"- {owner}: {', '.join(models)}\n" for owner, models in sorted(owners.items()))
    return MISSING.format(source=recipes["source"], lines=lines)


def _row(name: str, facts: ModelFacts | NotUnderstood, own: dict[str, GpuPlan | Infeasible]) -> str:
    if isinstance(facts, NotUnderstood):
        return f"| {name} | {facts.message} |{' |' * (len(KINDS) + 1)}\n"
    counted = " counted" if "count" in facts.weights_from or "config" in facts.weights_from else ""
    cells = (", ".join(_engines(facts)) or "-", *map(cell, own.values()))
    return f"| {name} | {facts.weight_bytes / GIB:.1f} GiB{counted} | {' | '.join(cells)} |\n"


def _engines(facts: ModelFacts) -> Iterator[str]:
    """The engines that know a model, with what is special about it."""
    (offer,) = (named_gpus(f"{kind}:1") for kind in KINDS[-1:])
    for name in ENGINES.by_name:
        engine = ENGINES[name]
        found = engine.support(facts.architecture, image="")
        is_unknown = not facts.architecture and name != ENGINES.default
        if found.obstacle or is_unknown or engine.on_gpus("", offer).unable(facts, Shape()):
            continue
        if name == ENGINES.default:
            yield f"{name} (implementation of {found.implementation})" if found.implementation else name
        elif not facts.is_pooling:
            yield f"{name} (one at a time)" if ONE_AT_A_TIME in found.lost else name


def cell(plan: GpuPlan | Infeasible) -> str:
    """What one kind of GPU holds."""
    if isinstance(plan, Infeasible):
        return NO_KERNELS if plan.reason is Reason.NO_SUITABLE_GPU else TOO_LARGE
    shape, found = plan.shape, plan.budget
    cache_gib = f"{found.kv_cache:.1f}" if found.kv_needed else "-"
    stages = f" ({shape.parallel.tensor} x {shape.parallel.pipeline})" if shape.parallel.pipeline > 1 else ""
    parallel = shape.parallel
    gpus = f"{parallel.nodes} nodes of {parallel.ranks_per_node}" if parallel.nodes > 1 else str(plan.gpus_per_replica)
    sizes = f"{gpus}{stages} · {_context(found.context)} · {shape.max_num_seqs} · {cache_gib}"
    return f"{sizes} · {_rate(plan)}"


def _rate(plan: GpuPlan) -> str:
    """Requests per second of one engine."""
    if plan.step is None:
        return "-"
    served, _, keeps = serving(plan.step, plan.budget).best(TYPICAL_LOAD, Objective())
    if not keeps:
        return "too slow"
    return f"{'~' if plan.step.estimated else ''}{served.requests:.2g}/s"


def _context(tokens: int) -> str:
    return f"{tokens // THOUSAND}k" if tokens % THOUSAND == 0 else f"{tokens:,}"
