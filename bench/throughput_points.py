"""Published measurements of throughput and latency: rows of `bench/data/throughput.csv`, as inputs of the step's time.

A row is left out if no config of its model is public here. Rows without lengths (benchmark_v0 of LambdaLabsML) count
with `UNSTATED_PROMPT` and `UNSTATED_ANSWER`; rows of `max` concurrency with as many requests as the KV cache holds.
"""

import csv
import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from generators.model_table import models
from inference_operator.engines.vllm.memory import step_overhead, vllm_memory
from inference_operator.hardware.kinds import GpuKind, kind_named
from inference_operator.hardware.offers import offer_of_kind
from inference_operator.models.catalogue import entry
from inference_operator.models.facts import Kernel, ModelFacts, Quantization
from inference_operator.models.model import model_facts
from inference_operator.sizing.budget import TYPICAL_TOKENS
from inference_operator.sizing.efficiency import SPEEDUP, Cell, cell
from inference_operator.sizing.kv_cache import cache_reads
from inference_operator.sizing.paged import PagedEngine
from inference_operator.sizing.serving import Load, Serving
from inference_operator.sizing.shape import ParallelSizes, Shape
from inference_operator.sizing.step_costs import TERA, costs_at_speed
from inference_operator.sizing.steptime import Overhead, StepCosts

FILE = Path(__file__).parent / "data" / "throughput.csv"
UNSTATED_PROMPT, UNSTATED_ANSWER = 220.0, 200.0
"""Tokens of ShareGPT's requests in vLLM's own benchmark, as the other pages with that data set state them."""
VARIED_BELOW = 300
"""Prompts of fewer tokens are ShareGPT's, whose lengths vary; longer ones are random tokens of one length."""
OTHER_OVERHEAD = Overhead(step=0.6e-3, sequence=10e-6)
"""Of SGLang and TensorRT-LLM, fitted to their rows."""
FIRST_RUNNER = "0.28.0"
"""The last version with the model runner that these measurements are of."""
OTHER_SEQUENCES, OTHER_BATCH = 2048, 8192
"""The largest batches of TensorRT-LLM's benchmark at maximum load (its documentation of `trtllm-bench`)."""
EIGHT_BIT, FOUR_BIT = 8.0, 4.5
"""Bits of an element of FP8 and NVFP4 weights, with scales."""
DRAIN_PARTS = 24
"""Parts of equal time in which the end of a burst is summed."""


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One measurement."""

    source: str
    """The page that published it."""
    configuration: str
    """What it measured there: engine, version, model, GPUs and options."""
    engine: str
    config: str
    """The model whose config is public here."""
    facts: ModelFacts
    shape: Shape
    kind: GpuKind
    on_gpu: PagedEngine
    load: Load
    concurrency: float | None
    """Requests that came at once; None: as many as the KV cache holds."""
    metric: str
    value: float

    @property
    def workload(self) -> tuple[str, str, float, float, float | None]:
        """Points that are comparable have the same."""
        return self.source, self.metric, self.load.prompt, self.load.answer, self.concurrency

    @property
    def is_time(self) -> bool:
        """Whether less is better."""
        return self.metric.endswith("_ms")

    @property
    def cell(self) -> Cell:
        """The cell of the share that it measures."""
        return cell(self.facts, self.shape, gpu=self.kind.name, capability=self.kind.capability)

    def predicted(self, share: float) -> float:
        """The metric, if tensor cores reach this share."""
        return _predicted(self, self.costs(share))

    def costs(self, share: float) -> StepCosts:
        """The costs of a step, if tensor cores reach this share."""
        gpu = self.on_gpu.gpu
        return costs_at_speed(
            self.facts,
            gpu,
            cache_reads(self.facts, self.on_gpu.engine, self.shape),
            self.on_gpu.overhead,
            self.shape,
            operations_per_second=gpu.tflops * TERA * SPEEDUP[self.cell.arithmetic] * share,
            estimated=False,
        )


@cache
def points() -> tuple[tuple[Point, ...], int]:
    """The measurements, and how many rows were left out."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    known = [row for row in rows if row["config"]]
    return tuple(_point(row) for row in known), len(rows) - len(known)


@cache
def facts_of(name: str) -> ModelFacts:
    known = entry(name)
    found = model_facts(known.config, known.weights) if known else dict(models())[name]
    if not isinstance(found, ModelFacts):
        raise TypeError(f"{name}: {found.message}")
    return found


def _point(row: dict[str, str]) -> Point:
    facts, kind = facts_of(row["config"]), kind_named(row["gpu"])
    if kind is None:
        raise ValueError(row["gpu"])
    parallel = ParallelSizes(int(row["tensor"]), int(row["pipeline"]), int(row["data"]))
    shape = Shape(
        parallel,
        quantization=_quantization(facts, row["precision"]),
        expert_parallel=row["expert_parallel"] == "1",
        max_num_batched_tokens=int(row["max_num_batched_tokens"]) if row["max_num_batched_tokens"] else None,
    )
    if row["engine"] == "TensorRT-LLM":
        shape = replace(shape, max_num_seqs=OTHER_SEQUENCES, max_num_batched_tokens=OTHER_BATCH)
    overhead = step_overhead(row["version"]) if row["engine"] == "vLLM" else OTHER_OVERHEAD
    engine = vllm_memory(FIRST_RUNNER, memory_gib=kind.memory_gib, product=kind.name)
    load = Load(float(row["prompt_tokens"] or UNSTATED_PROMPT), float(row["answer_tokens"] or UNSTATED_ANSWER))
    return Point(
        source=row["source"],
        configuration=" ".join(row[name] for name in ("note", "model", "gpu", "tensor", "pipeline", "data")),
        engine=row["engine"],
        config=row["config"],
        facts=facts,
        shape=shape,
        kind=kind,
        on_gpu=PagedEngine(offer_of_kind(kind), engine, overhead),
        load=load,
        concurrency=None if row["concurrency"] == "max" else float(row["concurrency"]),
        metric=row["metric"],
        value=float(row["value"]),
    )


def _quantization(facts: ModelFacts, precision: str) -> Quantization | None:
    """The quantization of a checkpoint whose config here is of its unquantized sibling."""
    if facts.quantization.kernel is not Kernel.NONE:
        return None
    return {"fp8": Quantization(Kernel.FP8, EIGHT_BIT), "nvfp4": Quantization(Kernel.NVFP4, FOUR_BIT)}.get(precision)


def batch_of(point: Point) -> float:
    """Requests that the engine of a point has at once, as far as its KV cache holds them."""
    serving = _serving(point, point.costs(1.0))
    return min(float(serving.max_num_seqs), max(1.0, serving.room(point.load)))


def _predicted(point: Point, costs: StepCosts) -> float:
    load, data = point.load, point.shape.parallel.data
    serving = _serving(point, costs)
    most = min(float(serving.max_num_seqs), max(1.0, serving.room(load)))
    if point.concurrency is None:
        served = serving.at(most, load)
        seconds, tokens = served.tpot, served.requests * load.answer * data
    else:
        burst = point.concurrency / data
        whole, seconds = _burst(serving, load, burst, min(burst, most, float(serving.max_num_batched_tokens)))
        tokens = burst * load.answer / whole * data
    match point.metric:
        case "output_tok_s":
            return tokens
        case "total_tok_s":
            return tokens * (1 + load.prompt / load.answer)
        case "output_tok_s_per_gpu":
            return tokens / point.shape.parallel.world_size
        case _:
            return seconds * 1000


def _serving(point: Point, costs: StepCosts) -> Serving:
    """The engine with the cache that is left beside small batches: the pages do not state what it was."""
    longest = max(TYPICAL_TOKENS, math.ceil(point.load.prompt + point.load.answer))
    few = replace(point.shape, context=longest, max_num_seqs=min(point.shape.max_num_seqs or 256, 256))
    budget, cached = point.on_gpu.budget(point.facts, few), point.on_gpu.budget(point.facts, point.shape)
    tokens = max(0.0, budget.typical_concurrency * TYPICAL_TOKENS)
    return Serving(costs, cached.max_num_seqs, cached.max_num_batched_tokens, tokens)


def _burst(serving: Serving, load: Load, burst: float, at_once: float) -> tuple[float, float]:
    """Seconds from the first request of a burst to its last token, and the mean time of its output tokens.

    The batch fills, has a steady load while requests wait, and ends. Lengths of ShareGPT's answers are about
    exponential, so the last of many is long. Equal answers of a burst that fits at once end together.
    """
    costs, context = serving.costs, load.resident
    waiting = max(0.0, burst - at_once)
    steady = serving.at(at_once, load)
    fill = at_once * load.prompt
    steps = max(1.0, fill / serving.max_num_batched_tokens)
    chunk = min(float(serving.max_num_batched_tokens), fill)
    decoding = at_once / 2 if steps > 1 else 0.0
    filled = steps * costs.seconds(decoding, prompt=chunk, context=context, before=load.prompt / 2)
    middles = [(part + 0.5) / DRAIN_PARTS for part in range(DRAIN_PARTS)]
    if load.prompt < VARIED_BELOW:
        longest = load.answer * math.log(max(at_once, 2.0))
        left = [at_once * math.exp(-middle * longest / load.answer) for middle in middles]
    else:
        longest = load.answer
        left = [at_once * (1 - middle if waiting > at_once / 2 else 1.0) for middle in middles]
    times = [costs.seconds(max(1.0, one), context=context) for one in left]
    part = longest / DRAIN_PARTS
    tokens = waiting * load.answer + sum(left) * part
    each = waiting * load.answer * steady.tpot + sum(n * t for n, t in zip(left, times, strict=True)) * part
    return filled + waiting / steady.requests + sum(times) * part, each / tokens
