"""`infd fit --rate`: one kind of engines beside engines for prompts and engines for answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from inference_operator.api.disaggregation import PREFILL_BATCHED_TOKENS, PREFILL_SEQUENCES
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.cli.fit.rate import Asked
from inference_operator.cli.output import table
from inference_operator.manifest import Manifest
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.choice import choose
from inference_operator.sizing.disaggregation import ApartPlan, KVPath, apart_plan, break_even, gigabits, unsendable
from inference_operator.sizing.fitting import OnGpus
from inference_operator.sizing.fleet import FleetPlan
from inference_operator.sizing.gpu_plan import Infeasible
from inference_operator.sizing.serving import serving
from inference_operator.sizing.shape import ParallelSizes, SizingInputs

HEAD = ("GPU", "ONE KIND", "APART", "PREFILL", "DECODE", "RATIO", "KV OF A PROMPT", "ON ITS WAY", "BREAK-EVEN", "")
DIGITS = 3


@dataclass(frozen=True, slots=True)
class Apart:
    """One kind of engines on GPUs of a kind, and what would be in their place."""

    one_kind: FleetPlan
    path: KVPath
    break_even: int | None
    plan: ApartPlan | None
    """None where no engines apart keep the objective."""
    problem: str
    """Why the operator would refuse it where no shorter prompt is sent, in a sentence; empty if it would not."""

    @property
    def gpu(self) -> str:
        return self.one_kind.engine.offer.kind

    def document(self, asked: Asked) -> Manifest:
        found, prompt = self.plan, asked.load.prompt
        return {
            "prefillReplicas": found and found.prefill_replicas,
            "decodeReplicas": found and found.decode_replicas,
            "gpus": found and found.gpus,
            "prefillGpusPerDecodeGpu": found and round(found.ratio, DIGITS),
            "keepsObjective": bool(found and found.keeps_objective),
            "kvBytesPerPrompt": round(self.path.token_bytes * prompt),
            "gigabitsPerSecond": self.path.gigabits,
            "transferSeconds": round(self.path.seconds(prompt), DIGITS),
            "breakEvenPromptTokens": self.break_even,
            "refusal": self.problem,
        }

    def row(self, asked: Asked) -> Sequence[str]:
        found, prompt = self.plan, asked.load.prompt
        numbers = ("-", "-", "-", "-")
        if found:
            numbers = (str(found.gpus), str(found.prefill_replicas), str(found.decode_replicas), f"{found.ratio:.2f}")
        return (
            self.gpu,
            str(self.one_kind.gpus),
            *numbers,
            f"{self.path.gib(prompt):.2f} GiB",
            f"{self.path.seconds(prompt):.2g} s",
            "never" if self.break_even is None else f"{self.break_even:,}",
            "too slow" if self.problem else "slow" if found and not found.keeps_objective else "",
        )


def apart(facts: ModelFacts, fleet: FleetPlan, asked: Asked, on_gpus: OnGpus, wishes: SizingInputs) -> Apart | None:
    """What would be in the place of one kind; None where KV caches of these engines are not sent."""
    engine, sizes = fleet.engine, fleet.engine.shape.parallel
    if unsendable(facts) or engine.step is None or _is_divided(sizes):
        return None
    speed = gigabits(asked.gigabits, has_devices=False, gpus=engine.gpus_per_replica)
    path = KVPath(engine.budget.kv_token_bytes * sizes.world_size, speed)
    own = serving(engine.step, engine.budget)
    even = break_even(own, path, asked.objective, context=engine.budget.context)
    shape = replace(wishes.shape, max_num_seqs=PREFILL_SEQUENCES, max_num_batched_tokens=PREFILL_BATCHED_TOKENS)
    prefill = choose(facts, [engine.offer], on_gpus, replace(wishes, shape=shape, profile=EngineProfile.THROUGHPUT))
    problem = path.problem(asked.load.prompt, asked.objective)
    is_possible = not (problem or isinstance(prefill, Infeasible) or _is_divided(prefill.shape.parallel))
    plan = None
    if is_possible and not isinstance(prefill, Infeasible):
        plan = apart_plan(prefill, engine, asked.load, asked.objective, rate=asked.rate, path=path)
    return Apart(fleet, path, even, plan, problem)


def _is_divided(sizes: ParallelSizes) -> bool:
    """Whether the operator would refuse to send KV caches between engines of these sizes."""
    return max(sizes.pipeline, sizes.nodes, sizes.data) > 1


def lines(found: Sequence[Apart], asked: Asked, facts: ModelFacts) -> Iterator[str]:
    if what := unsendable(facts):
        yield f"Prefill and decode are not apart: {what} are not sent from engine to engine."
    if not found:
        return
    yield ""
    yield f"Prefill and decode apart, with KV caches over {found[0].path.gigabits:g} Gbit/s:"
    yield from table([HEAD, *(one.row(asked) for one in found)])
    for one in found:
        if one.problem:
            yield f"{one.gpu}: {one.problem} Name a faster network (--network)."
    yield "ONE KIND, APART: GPUs. BREAK-EVEN: tokens of a prompt for which answers beside it would wait longer."
