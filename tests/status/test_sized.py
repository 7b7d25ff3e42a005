from dataclasses import replace

from inference_operator.sizing.learned import Learned
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import ParallelSizes, Shape, SizingInputs
from inference_operator.status.sized import correction, not_run


def test_a_correction_says_what_the_engine_reported_what_follows_and_the_field() -> None:
    plan = unchecked_plan(SizingInputs(tensor=1, shape=Shape(context=944)))
    assert correction(replace(plan, learned=Learned("", 1, context=2048, longest=1000))) == (
        "The first engine did not start: it reported that 1,000 tokens fit. So the context was reduced from 2,048 to"
        " 944 tokens. To choose it yourself, set `spec.engine.maxModelLen`."
    )


def test_sizes_that_the_project_has_not_run_are_said_so() -> None:
    assert not_run(ParallelSizes(tensor=1, data=16, nodes=2)).startswith("Data parallel ranks with expert parallelism ")
