"""What engines of a plan can carry, in sentences of the condition Sized."""

from collections.abc import Iterator

from inference_operator.sizing.plan import Plan
from inference_operator.sizing.serving import Load, serving_of_plan
from inference_operator.sizing.shape import Objective

MILLISECONDS = 1000


def capacity(plan: Plan, objective: Objective, load: Load) -> Iterator[str]:
    """What one engine carries, in sentences; none if the speed of its GPUs is unknown."""
    engine = serving_of_plan(plan)
    if engine is None:
        return
    served, limit, keeps = engine.best(load, objective)
    each = f" and {objective.tpot * MILLISECONDS:g} ms for each further one" if engine.costs.decodes else ""
    goal = f"{objective.ttft:g} s to the first token{each}"
    source = "; an estimate: no measurement of such a model on this GPU is known" if engine.costs.estimated else ""
    if keeps:
        answer = f" and {load.answer:,.0f} answer" if engine.costs.decodes else ""
        shape = f"requests/s of {load.prompt:,.0f} prompt{answer} tokens"
        yield f"One engine carries about {served.requests:.2g} {shape} within {goal} (bound by {limit}{source})."
        return
    yield (
        f"These GPUs are too slow for {goal}: one request at a time takes {served.ttft:.2g} s and"
        f" {served.tpot * MILLISECONDS:.2g} ms{source}. Relax `spec.autoscaling.objective`, or use faster GPUs or a"
        " smaller checkpoint."
    )
