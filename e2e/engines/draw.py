"""Pairs of a model with options on a kind of GPU, drawn at random: what the plan says, and what vLLM says.

A pair is planned with requested parallel sizes. Where the plan refuses, vLLM gets the same wishes as plain
arguments. The configs are whole: those of `vllm_parser/public_models.jsonl`, and of reported failures.
"""

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from e2e.engines import vllm_options
from e2e.test_derived_sizes import LEADER, MODELS, arguments_of, asked, decision, entry_of
from inference_operator.api.engine import SpeculativeSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.vllm.speculation import drafting_of, speculation_arguments
from inference_operator.hardware.kinds import GpuKind, kind_named
from inference_operator.manifest import Manifest
from inference_operator.models import catalogue
from inference_operator.models.entry import Entry
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.units import GIB

REPORTED = [json.loads(line) for line in vllm_options.SCRIPT.joinpath("reported_models.jsonl").read_text().splitlines()]
KNOWN = Path(__file__).with_name("draw_differences.txt")
"""Differences between plan and vLLM. A line is a reason, and after ` <- ` the pattern of a pair with what is said."""
GPUS = ("T4", "T4", "A10G", "A100-40GB", "A100-80GB", "L4", "RTX-4090", "L40S", "H100-80GB", "H200", "B200", "RTX-5090")
TENSOR = (1, 2, 2, 2, 3, 4, 4, 4, 6, 6, 8, 8, 8)
"""Sizes with their weights."""
STAGES = (*((1, 1),) * 17, (2, 1), (2, 2), (3, 1), (4, 2))
"""Stages of a pipeline, and the nodes over which they are divided."""
PER_NODE = 8
"""GPUs of a node."""
Options: TypeAlias = tuple[Manifest, tuple[str, ...]]
OPTIONS: tuple[Options, ...] = (
    *(({}, ()),) * 4,
    *(({"kvCacheDtype": one}, ()) for one in ("fp8", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_e5m2", "bfloat16")),
    *(({"dtype": one}, ()) for one in ("float16", "float16", "float16", "bfloat16", "float32")),
    *(({"quantization": one}, ()) for one in ("fp8", "awq", "gptq", "compressed-tensors", "int4", "int4", "mxfp4")),
    *(({"maxNumSeqs": 4096}, ()),) * 2,
    *(({"maxModelLen": 2_000_000}, ()), ({"maxModelLen": 1024}, ())),
    *(({}, (one,)) for one in ("--runner=pooling", "--block-size=48", "--block-size=8")),
    *(({}, ("--enable-expert-parallel",)),) * 2,
    *(({"speculative": {"method": "MTP", "tokens": 1}}, ()),) * 2,
)
"""Fields of `spec.engine`, and arguments that whoever writes the resource may give."""
GENERATE: Options = ({}, ("--runner=generate",))
POOLING_SHARE = 0.08
"""Share of pairs of a model that generates nothing, with the request to generate or with stages: there are few such
models."""
DRAFT_SHARE, FITTING_SHARE = 0.06, 0.7
"""Share of pairs with a draft model, and of those with one that has the model's vocabulary."""
TOKENS = (1, 3, 4)
FLAGS = {
    "kvCacheDtype": "--kv-cache-dtype",
    "dtype": "--dtype",
    "quantization": "--quantization",
    "maxNumSeqs": "--max-num-seqs",
    "maxModelLen": "--max-model-len",
}
MEMORY = {Reason.INSUFFICIENT_GPU_MEMORY, Reason.NEEDS_MULTI_NODE}
RIGHTS = {Reason.ARGUMENT_NOT_ALLOWED, Reason.MANAGED_ARGUMENT}
OTHER_NODES = ["--node-rank=0", f"--master-addr={LEADER}"]
"""What vLLM asks for where it runs on several nodes."""
RULES = {
    "heads": r"attention heads \(\d+\) must be divisible",
    "attention": r"No valid (MLA prefill |attention )backend|requires SM89|fp8_e5m2 kv-cache is not"
    "|does not support fp8",
    "method of the checkpoint": r"does not match the quantization method",
    "method without files": r"Cannot find (the config file|any of)|get_quant_config: .*missing \d+ required",
    "unknown method": r"Unknown quantization method",
    "capability and type": r"[Mm]inimum capability|for the current GPU|MoE backend supports|does not support float16"
    r"|is not supported for quantization method|Bfloat16 is only",
    "context": r"max_model_len",
    "experts": r"Number of experts",
    "pipeline": r"Pipeline parallelism is not supported",
    "speculation": r"[Ss]peculative|n_predict|mtp|Target and draft model should|Invalid model_type|No Qwen3Next layer"
    r"|Duplicate layer name",
    "divided layers": r"is not divisible by|^AssertionError in \w+\.py:__init__|size_per_partition|not multiple of",
    "blocks and sequences": r"max_num_seqs|KV cache|[Bb]lock.?size",
    "runner": r"--runner|[Pp]ooling",
}
"""Rules of vLLM by the texts of their refusals; the first that matches counts."""
CANNOT = re.compile(r"^(AttributeError|ImportError|ModuleNotFoundError|KeyError)|meta tensors|some but not all shards")
"""What the stand-ins cannot tell, or what a config does not say in which lists of names are shortened."""


@dataclass(frozen=True)
class Pair:
    """A model with options on a kind of GPU, and the plan's decision."""

    model: str
    gpu: str
    options: str
    given: Manifest
    """What the script in the image gets."""
    refusal: str
    """Why the plan refuses; empty if it does not."""
    reason: Reason | None

    @property
    def name(self) -> str:
        """The pair in words."""
        return f"{self.model} on {self.gpu} with {self.options}"


def drawn(count: int, folder: Path, seed: int = 55) -> list[Pair]:
    """So many different pairs, always the same ones; sorted by GPU, since vLLM keeps what it knows about one."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    models = [(model, entry) for model in (*MODELS, *REPORTED) if (entry := entry_of(model, folder / model["model"]))]
    kinds = [kind for name in GPUS if (kind := kind_named(name))]
    pooling = [(model, entry) for model, entry in models if _facts(entry).is_pooling]
    pairs: dict[str, Pair] = {}
    while len(pairs) < count:
        other = len(pairs) < count * POOLING_SHARE
        generate = other and draw.random() < 1 / 2
        model, entry = draw.choice(pooling if other else models)
        options = GENERATE if generate else draw.choice(OPTIONS)
        if not other and draw.random() < DRAFT_SHARE:
            options = _with_draft(draw, entry)
        kind, tensor, (stages, nodes) = draw.choice(kinds), draw.choice(TENSOR), draw.choice(STAGES)
        if other and not generate:
            tensor, stages, nodes = 2, 2, 1
        division = (stages, nodes) if tensor * stages <= PER_NODE * nodes else (1, 1)
        pair = _pair(model, entry, kind, (tensor, *division), options)
        pairs[pair.name] = pair
    return sorted(pairs.values(), key=lambda pair: pair.gpu)


def _facts(entry: Entry) -> ModelFacts:
    facts = model_facts(entry.config)
    if isinstance(facts, ModelFacts):
        return facts
    raise TypeError(f"{entry.name}: {facts.message}")


@cache
def _drafts() -> dict[str, tuple[Manifest, int]]:
    """Files and vocabulary of the models that the operator knows by name."""
    known = {model["model"]: (model["files"], catalogue.entry(model["model"])) for model in MODELS}
    return {name: (files, _facts(entry).vocabulary) for name, (files, entry) in known.items() if entry}


def _with_draft(draw: random.Random, entry: Entry) -> Options:
    """The options for a draft model, mostly for one with the model's vocabulary."""
    fitting = [name for name, (_, vocabulary) in _drafts().items() if vocabulary == _facts(entry).vocabulary]
    names = fitting if fitting and draw.random() < FITTING_SHARE else [*_drafts()]
    draft = f"hf://{draw.choice(names)}"
    return {"speculative": {"method": "DraftModel", "model": draft, "tokens": draw.choice(TOKENS)}}, ()


def _pair(model: Manifest, entry: Entry, kind: GpuKind, sizes: tuple[int, int, int], options: Options) -> Pair:
    fields, arguments = options
    engine = {**fields, **({"args": list(arguments)} if arguments else {})}
    tensor, stages, nodes = sizes
    found = decision(entry, kind, engine, {"tensor": tensor, "pipeline": stages, "nodes": nodes})
    refusal = found.refusal if isinstance(found, Refused) else None
    wishes = [f"--tensor-parallel-size={tensor}"]
    wishes += [f"--pipeline-parallel-size={stages}"] if stages > 1 else []
    wishes += [f"--nnodes={nodes}"] if nodes > 1 else []
    wishes += [*(f"{FLAGS[name]}={value}" for name, value in fields.items() if name in FLAGS), *arguments]
    speculative = SpeculativeSpec.model_validate(fields.get("speculative", {}))
    wishes += speculation_arguments(drafting_of(speculative))
    names = [speculative.repository] if speculative.model else []
    given = {**asked(model, kind), "start": True, "drafts": {name: _drafts()[name][0] for name in names}}
    if isinstance(found, Planned):
        memory = found.plan.plan.per_gpu
        given |= {"arguments": arguments_of(found), "cache_bytes": memory and int(memory.kv_cache_gib * GIB)}
    else:
        given |= {"arguments": ["model", *wishes, *OTHER_NODES * (nodes > 1)]}
    said = "" if isinstance(found, Planned) else refusal.message if refusal else type(found).__name__
    return Pair(model["model"], kind.name, " ".join(wishes), given, said, refusal.reason if refusal else None)


def rule_of(error: str) -> str:
    """The rule of vLLM that a text is of; empty if it is of none."""
    return next((rule for rule, pattern in RULES.items() if re.search(pattern, error)), "")


def differences(pairs: Sequence[Pair], results: Sequence[Mapping[str, str]]) -> Iterator[tuple[Pair, str]]:
    """Pairs about which the two do not agree, and how: a refusal for memory or rights says nothing about rules."""
    for pair, result in zip(pairs, results, strict=True):
        error = result.get("error", "")
        if CANNOT.search(error):
            continue
        if error and not pair.refusal:
            yield pair, f"vLLM refuses: {error}"
        elif pair.refusal and not error and pair.reason not in MEMORY | RIGHTS:
            yield pair, f"the plan refuses: {pair.refusal}"


def known() -> dict[re.Pattern[str], str]:
    """The reasons of differences by their patterns."""
    lines = (line.split(" <- ") for line in KNOWN.read_text().splitlines() if not line.startswith("#"))
    return {re.compile(pattern, re.DOTALL): reason for reason, pattern in lines}
