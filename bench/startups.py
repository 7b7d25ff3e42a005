"""Published start-ups of vLLM: which rows sizing is compared with, and the inputs of sizing for each row."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inference_operator.engines.vllm.memory import version_of, vllm_memory
from inference_operator.hardware.kinds import GpuKind, kind_named
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.quantization import named_quantization
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.shape import ParallelSizes, Shape, Speculation
from tests.testing.collected import entry

FILE = Path(__file__).parent / "data" / "startups.csv"
FAMILIES = {
    "kimi-dev": "qwen",  # a Qwen2.5-72B by shape
    "r1-distill-qwen": "qwen",
    "r1-0528-qwen": "qwen",
    "qwen": "qwen",
    "llama-4": "llama 4",
    "llama": "llama",
    "deepseek": "deepseek",
    "kimi": "deepseek",  # the same attention and experts
    "gemma": "gemma",
    "granite": "granite",
    "mistral": "mistral",
    "mixtral": "mistral",
    "phi": "phi",
    "gpt-oss": "gpt-oss",
}
"""Family by a part of the model's name. Models of one architecture are one family, so that constants are
never fitted on the family that they are tested on."""
WHOLE_SIZES = {8.0, 16.0, 22.0, 24.0, 32.0, 48.0, 64.0, 80.0, 96.0}
"""Nominal sizes of cards in GiB; CUDA reports less."""


@dataclass(frozen=True, slots=True)
class Startup:
    """One row; an unknown value is empty."""

    fields: dict[str, str]

    def number(self, name: str) -> float | None:
        """A column as a number; None where it is empty."""
        return float(self.fields[name]) if self.fields[name] else None

    def whole(self, name: str) -> int | None:
        """A column as a whole number; None where it is empty."""
        return int(float(self.fields[name])) if self.fields[name] else None

    @property
    def id(self) -> str:
        """The row's name in the data."""
        return self.fields["id"]

    @property
    def outcome(self) -> str:
        """The outcome of the start-up."""
        return self.fields["outcome"]

    @property
    def started(self) -> bool:
        """Whether the engine became ready."""
        return self.outcome == "ok"

    @property
    def version(self) -> str:
        """The version of the engine."""
        return self.fields["vllm_version"].removeprefix("~")

    @property
    def family(self) -> str:
        """The family of models."""
        name = self.fields["model"].lower()
        return next((family for part, family in FAMILIES.items() if part in name), "other")

    @property
    def known(self) -> Entry | None:
        """The model in the catalogue."""
        return entry(self.fields["model"])

    @property
    def kind(self) -> GpuKind | None:
        """The kind of GPU."""
        name = self.fields["gpu"].partition("(")[0].strip()
        return kind_named(name) if name else None

    @property
    def memory_gib(self) -> float | None:
        """The GPU's memory as CUDA reports it."""
        stated = self.number("gpu_mem_gib")
        if stated and stated not in WHOLE_SIZES:
            return stated
        return self.kind.memory_gib if self.kind else None


EXCLUSIONS: tuple[tuple[str, Callable[[Startup], bool]], ...] = (
    ("the outcome has nothing to do with size", lambda row: row.outcome == "other"),
    ("no config of the model is public in the catalogue", lambda row: row.known is None),
    ("several nodes, data or expert parallel", lambda row: bool(row.fields["expert_parallel"] or row.fields["note"])),
    ("a draft model of unknown size", lambda row: bool(row.fields["draft"])),
    ("the tensor size that is refused is not stated", lambda row: row.outcome == "tp_invalid" and not row.fields["tp"]),
    (
        "the GPU's memory is not stated, or it is none of NVIDIA's",
        lambda row: (
            row.outcome != "tp_invalid" and (row.memory_gib is None or (row.kind is None and bool(row.fields["gpu"])))
        ),
    ),
    (
        "neither utilisation nor version is stated",
        lambda row: not row.version and not row.fields["gpu_memory_utilization"],
    ),
)
"""Rules that exclude a row; the first that holds is reported."""


@dataclass(frozen=True, slots=True)
class Case:
    """A row with the inputs of sizing."""

    row: Startup
    facts: ModelFacts
    gpu: GpuOffer
    engine: EngineMemory
    shape: Shape

    @property
    def has_version(self) -> bool:
        """Whether the engine's version is known; its sampler and its budget depend on it."""
        return version_of(self.row.version) is not None


def startups() -> list[Startup]:
    """All rows."""
    with FILE.open(encoding="utf-8", newline="") as lines:
        return [Startup(fields) for fields in csv.DictReader(lines)]


def excluded(row: Startup) -> str | None:
    """The rule that excludes a row; None if the row can be compared."""
    return next((reason for reason, holds in EXCLUSIONS if holds(row)), None)


def case(row: Startup) -> Case:
    """The inputs of sizing for a row that no rule excludes.

    Raises:
        ValueError: its model is unknown.
    """
    known = row.known
    facts = model_facts(known.config, known.weights) if known else None
    if facts is None or isinstance(facts, NotUnderstood):
        raise ValueError(row.id)
    memory, kind = row.memory_gib or 0.0, row.kind
    quantised = row.fields["quantization"]
    shape = Shape(
        parallel=ParallelSizes(row.whole("tp") or 1, row.whole("pp") or 1),
        context=row.whole("max_model_len"),
        utilization=row.number("gpu_memory_utilization"),
        max_num_seqs=row.whole("max_num_seqs"),
        max_num_batched_tokens=row.whole("max_num_batched_tokens"),
        kv_cache_dtype=row.fields["kv_cache_dtype"] or "auto",
        element_bytes=4 if row.fields["dtype"] == "float32" else None,
        quantization=named_quantization(quantised) if quantised else None,
        eager=row.fields["enforce_eager"] == "True",
        video=True,
        speculation=Speculation(tokens) if (tokens := row.whole("speculative_tokens")) else None,
    )
    gpu = GpuOffer(row.fields["gpu"], memory, linked=kind.linked if kind else True)
    capability = kind.capability if kind else (0, 0)
    engine = vllm_memory(row.version, memory_gib=memory, product=gpu.kind, capability=capability)
    return Case(row, facts, gpu, engine, shape)
