"""Choices of sizing for public models on kinds of GPUs, beside the smallest that fit: `python -m bench.choices`.

A node has eight GPUs. The table has the choices that differ. A choice is below the floor if its KV cache holds fewer
than `ENOUGH_REQUESTS` typical requests although another size on the same GPUs holds them.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.figures import Figure, exactly, parser_of, shown
from generators.model_table import KINDS, PER_NODE, models
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.cli.arguments import named_gpus
from inference_operator.engines.registry import ENGINES
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import EngineOnGpus
from inference_operator.sizing.choice import choose
from inference_operator.sizing.fitting import Pool
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.ranking import ENOUGH_REQUESTS
from inference_operator.sizing.serving import Load, Served, serving
from inference_operator.sizing.shape import Objective, SizingInputs


@dataclass(frozen=True, slots=True)
class Choice:
    """One model on one kind of GPU."""

    model: str
    gpu: str
    smallest: GpuPlan
    chosen: GpuPlan
    below_floor: bool

    @property
    def differs(self) -> bool:
        """Whether the choice is not the smallest size, or has other batches or another context."""
        return self.smallest.shape != self.chosen.shape


def engine_on(gpu: str) -> EngineOnGpus:
    """The operator's engine on GPUs of this kind."""
    return ENGINES[ENGINES.default].on_gpus("", named_gpus(f"{gpu}:{PER_NODE}"))


def choices() -> Iterator[Choice]:
    """The choice of each model on each kind of GPU, on whose GPUs of one node it fits."""
    for name, facts in models():
        if not isinstance(facts, ModelFacts) or facts.is_pooling:
            continue
        for gpu in KINDS:
            offer = named_gpus(f"{gpu}:{PER_NODE}")
            smallest, chosen = (
                choose(facts, [offer], lambda one: engine_on(one.kind), SizingInputs(profile=profile, nodes=1))
                for profile in (EngineProfile.SMALLEST, EngineProfile.BALANCED)
            )
            if isinstance(smallest, GpuPlan) and isinstance(chosen, GpuPlan):
                yield Choice(name, gpu, smallest, chosen, _below_floor(chosen, Pool(facts, offer, engine_on(gpu))))


def _below_floor(chosen: GpuPlan, pool: Pool) -> bool:
    if chosen.budget.typical(ENOUGH_REQUESTS):
        return False
    found = (pool.at_target(SizingInputs(), parallel) for parallel in pool.parallels(SizingInputs()))
    objective = Objective()
    return any(
        one is not None and one.budget.typical(ENOUGH_REQUESTS) and _keeps(pool, one.shape, objective) for one in found
    )


def _keeps(pool: Pool, shape: object, objective: Objective) -> bool:
    served = best_of(pool, shape, objective)
    return served is not None and served.keeps(objective)


def best_of(pool: Pool, shape: object, objective: Objective) -> Served | None:
    """The best that a shape serves."""
    candidate = pool.candidate(shape, SizingInputs())  # type: ignore[arg-type]
    costs = pool.engine.step_costs(pool.facts, candidate.shape)
    return serving(costs, candidate.budget).best(Load(), objective)[0] if costs else None


def row(plan: GpuPlan) -> str:
    """The sizes of a plan, and what it serves."""
    parallel, budget = plan.shape.parallel, plan.budget
    text = f"TP{parallel.tensor}" + (f"xPP{parallel.pipeline}" if parallel.pipeline > 1 else "")
    rate = ""
    if plan.step:
        served, limit, keeps = serving(plan.step, budget).best(Load(), Objective())
        rate = f"{served.requests / plan.gpus_per_replica:6.2f}/s/GPU {limit.name[:4]}{'' if keeps else ' MISSED'}"
    return (
        f"{text:8} {budget.context // 1024:4}k {budget.max_num_seqs:4}/{budget.max_num_batched_tokens:<5}"
        f" KV {budget.kv_cache / budget.memory:3.0%} {budget.typical_concurrency:5.0f} {rate:24}"
    )


def main(arguments: Sequence[str]) -> int:
    """Print the choices that differ, and the figures."""
    asked = parser_of("python -m bench.choices", "What sizing chooses, beside the smallest size.").parse_args(arguments)
    found = list(choices())
    changed = [one for one in found if one.differs]
    if asked.output == "text":
        for one in changed:
            print(f"{one.model[-36:]:36} {one.gpu:9} {row(one.smallest)} -> {row(one.chosen)} | {one.chosen.runner_up}")
    starved = [one for one in found if not one.chosen.budget.typical(ENOUGH_REQUESTS)]
    figures = [
        Figure("choices", len(found), "plans"),
        Figure(
            "choices that are not the smallest size",
            sum(
                replace(one.smallest.shape, context=None) != replace(one.chosen.shape, context=None) for one in changed
            ),
            "plans",
        ),
        Figure(
            "choices of more GPUs",
            sum(one.chosen.gpus_per_replica > one.smallest.gpus_per_replica for one in found),
            "plans",
        ),
        Figure("choices of fewer than 32 requests", len(starved), "plans"),
        Figure(
            "smallest sizes of fewer than 32 requests",
            sum(not one.smallest.budget.typical(ENOUGH_REQUESTS) for one in found),
            "plans",
        ),
        Figure(
            "choices below the floor that another size keeps",
            sum(one.below_floor for one in found),
            "plans",
            exactly(0),
        ),
    ]
    print(shown(figures, asked.output))
    return int(any(figure.aim and not figure.aim.met_by(figure.value) for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
