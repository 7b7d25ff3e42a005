"""Generates the page of what goes with what: the project's own rules, beside what vLLM itself accepts.

`combinations-VERSION.txt` is what vLLM says (`python -m e2e.engines.combinations`). A test compares both, both ways.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

from inference_operator.api.engine import EngineSpec
from inference_operator.api.engine_kind import EngineKind
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.engines.vllm.options import VERSION
from inference_operator.manifest import Manifest
from inference_operator.models.catalogue import entry
from inference_operator.models.checkpoint import Weights
from inference_operator.models.entry import Entry, entry_facts
from inference_operator.models.facts import ModelFacts
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Outcome, Planned, Refused
from inference_operator.settings import ModelInspection, Settings

TABLE = Path(__file__).with_name(f"combinations-{VERSION}.txt")
EXPERTS, PREDICTS, DRAFT = "Qwen/Qwen3-30B-A3B", "zai-org/GLM-4.5-Air", "Qwen/Qwen3-0.6B"
HEAD = "org/head"
"""Stands for any head of EAGLE 3; `e2e/engines/combinations.py` has its config."""
GPUS, COMMIT = "H100:8", "0" * 40
SETTINGS = Settings(gpu_offers=(GPUS,), model_inspection=ModelInspection.WHEN_UNKNOWN)
MTP, APART = "multi-token prediction", "prompts apart"
FEATURES: Mapping[str, Manifest] = {
    "n-grams": {"engine": {"speculative": {"method": "Ngram"}}},
    "a draft model": {"engine": {"speculative": {"method": "DraftModel", "model": f"hf://{DRAFT}"}}},
    "a trained head": {"engine": {"speculative": {"method": "EAGLE3", "model": f"hf://{HEAD}"}}},
    MTP: {"engine": {"speculative": {"method": "MTP"}}},
    "an FP8 KV cache": {"engine": {"kvCacheDtype": "fp8"}},
    "KV offload": {"engine": {"kvOffload": {"memory": "64Gi"}}},
    "adapters": {"engine": {"adapterSlots": 4}, "cache": {"size": "500Gi", "accessMode": "ReadWriteMany"}},
    "weights in FP8": {"engine": {"quantization": "fp8"}},
    "weights on the host": {"engine": {"cpuOffloadGiB": 4}},
    "a pipeline": {"parallelism": {"pipeline": 2}},
    "data parallel": {"parallelism": {"data": 2}},
    "several nodes": {"parallelism": {"nodes": 2, "tensor": 8, "pipeline": 1}},
    "a claim": {"cache": {"size": "500Gi", "accessMode": "ReadWriteMany"}},
    "zero engines": {"autoscaling": {"minReplicas": 0, "maxReplicas": 2}},
    APART: {"disaggregation": {"prefill": {"replicas": 2}}},
}
"""What a resource may ask for, by name; the first columns of the page."""
GUESSING = tuple(name for name, fields in FEATURES.items() if "speculative" in fields.get("engine", {}))
OF_EVERY_ENGINE = ("a claim", "zero engines", "a pipeline")
"""Features that depend on the model or the cluster, and not on the kind of engine alone."""
OF_CLUSTER = ("a claim", "zero engines", APART)
"""Features about which vLLM is not asked: it sees nothing of them, or the project allows only what it has run."""
Pair = tuple[str, str]


def exclude(one: Manifest, other: Manifest) -> bool:
    """Whether both set the same field."""
    return any(one[part].keys() & other[part].keys() for part in one.keys() & other.keys())


PAIRS: tuple[Pair, ...] = tuple(
    pair for pair in combinations(FEATURES, 2) if not exclude(FEATURES[pair[0]], FEATURES[pair[1]])
)
"""The pairs that one resource can state."""


def resource(*features: str) -> Manifest:
    """A resource with some features, and a model that can have them."""
    spec: dict[str, Manifest] = {"model": {"source": f"hf://{PREDICTS if MTP in features else EXPERTS}"}}
    for feature in features:
        for part, fields in FEATURES[feature].items():
            spec[part] = {**spec.get(part, {}), **fields}
    metadata = {"name": "m", "namespace": "default"}
    return {
        "apiVersion": "inference-operator.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": metadata,
        "spec": spec,
    }


@cache
def decided(features: tuple[str, ...]) -> Outcome:
    """The operator's decision."""
    raw = resource(*features)
    model = entry(PREDICTS if MTP in features else EXPERTS)
    return outcome(offline_inputs(raw, SETTINGS, ENGINES, model=_read(model) if model and APART in features else model))


def _read(model: Entry) -> Entry:
    """The entry as an inspection of the model's files has it: engines that send each other KV caches wait for one."""
    facts = entry_facts(model)
    assert isinstance(facts, ModelFacts)  # noqa: S101 - for the checker of types
    return replace(model, commit=COMMIT, weights=Weights(facts.weight_bytes, "model.safetensors.index.json"))


def refusal(pair: Pair) -> str:
    """Why the operator refuses a pair; empty if it does not."""
    found = decided(pair)
    if isinstance(found, Planned):
        return ""
    return found.refusal.message if isinstance(found, Refused) else "it waits"


@cache
def of_vllm() -> Mapping[Pair, str]:
    """What vLLM says about each pair that it sees: empty, or its error."""
    rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines())
    return {(one, other): error for one, other, error in rows}


def page() -> str:
    notes: list[str] = []
    names = list(FEATURES)
    lines = ["| | " + " | ".join(names[1:]) + " |", "|---" * len(names) + "|"]
    for number, one in enumerate(names[:-1]):
        cells = [_cell((one, other), notes) if place >= number else "" for place, other in enumerate(names[1:])]
        lines.append(f"| **{one}** | {' | '.join(cells)} |")
    asked = {name: fields for name, fields in FEATURES.items() if name not in OF_EVERY_ENGINE}
    engines = [f"| {name} | {' | '.join(_of_engines(fields))} |" for name, fields in asked.items()]
    kinds = [kind for kind in EngineKind if kind in ENGINES]
    named = {"model": EXPERTS, "mtp": MTP, "predicts": PREDICTS, "apart": APART}
    text = TEXT.format(version=VERSION, gpu=GPUS.partition(":")[0], **named)
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    of_engines = [f"| | {' | '.join(kinds)} |", f"|---{'|---' * len(kinds)}|", *engines]
    return "\n".join([text, *lines, "", *numbered, "", "## Engines", *of_engines, ""])


TEXT = """# What goes with what
Pairs of what one resource may ask for, with vLLM {version} on {gpu}. `make crd` generates this page.

- *yes* and *no* are the operator's decisions on {model}, with {mtp} on {predicts}. *-*: both are one field.
- `python -m e2e.engines.combinations` asks vLLM's own configuration the same with these arguments; tests compare both.
- *{apart}* is [`spec.disaggregation`](../how-to/prefill.md): only what the project has run is allowed, without vLLM.
"""


def _cell(pair: Pair, notes: list[str]) -> str:
    if pair not in PAIRS:
        return "-"
    if not (why := refusal(pair)):
        return "yes"
    if why not in notes:
        notes.append(why)
    return f"no ({notes.index(why) + 1})"


def _of_engines(fields: Manifest) -> list[str]:
    """Whether each kind of engine takes the fields."""
    cells = []
    for kind in EngineKind:
        if kind in ENGINES:
            engine, asked = ENGINES[kind], EngineSpec.model_validate(fields.get("engine", {}))
            parallelism = fields.get("parallelism", {})
            able = engine.check_fields(asked) is None
            able = able and ("nodes" not in parallelism or engine.runs_over_nodes)
            able = able and ("disaggregation" not in fields or engine.can_transfer)
            able = able and ("data" not in parallelism or engine.check_data_parallel(asked) is None)
            cells.append("yes" if able else "no")
    return cells
