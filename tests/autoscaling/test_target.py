"""The target concurrency: which bound decides it, and how latencies correct it."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.hardware import Device
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.decision import Bound, Decision, Terms
from inference_operator.autoscaling.inputs import ScalingResult, corrected_target
from inference_operator.autoscaling.target import (
    UNKNOWN_TARGET,
    Target,
    TargetBound,
    target_concurrency,
)
from inference_operator.autoscaling.target_correction import (
    GROWTH,
    LEAST_STEP,
    MOST_STEP,
    STEP_REQUESTS,
    STEP_SECONDS,
    LatencySample,
    next_factor,
)
from inference_operator.sizing.plan import PerGpu, Plan
from inference_operator.sizing.serving import LEAST_SLACK, Load, serving_of_plan
from inference_operator.sizing.shape import Objective, ParallelSizes
from inference_operator.sizing.steptime import StepCosts
from tests.sizing.pools import slowed

# An 8B model in 16 bits with grouped-query attention (Llama 3.1 8B) on an H100.
PER_GPU = PerGpu(
    memory_gib=79.18,
    requested_gib=71.3,
    weights_gib=15.0,
    activation_gib=1.0,
    non_torch_gib=0.2,
    cuda_graphs_gib=0.5,
    kv_cache_gib=54.6,
    kv_cache_tokens=447_000,
    kv_token_bytes=131_072,
    headroom_gib=38.0,
    max_concurrency_at_full_context=3.4,
    max_concurrency_at_2048_tokens=218.0,
    origins={},
)
STEP = StepCosts(dense=0.006, cached_token=5e-8, token=4e-5, fixed=0.001, sequence=1e-5, attention=2e-9)
PLAN = Plan(
    Device.GPU,
    ParallelSizes(1),
    1,
    "4",
    "16Gi",
    "2Gi",
    "2Gi",
    gpu="H100-80GB",
    per_gpu=PER_GPU,
    max_model_len=131_072,
    max_num_seqs=1024,
    max_num_batched_tokens=8192,
    step=STEP,
)


def test_on_a_known_gpu_the_latencies_decide() -> None:
    found = target_concurrency(PLAN, max_num_seqs=256)
    assert found.bound is TargetBound.TOKEN_TIME
    assert set(found.bounds) == {TargetBound.SEQUENCES, TargetBound.KV_CACHE, TargetBound.TOKEN_TIME}
    engine = serving_of_plan(PLAN)
    assert engine is not None
    served = engine.at(found.concurrency, Load())
    assert served.tpot_of(99.5) == pytest.approx(Objective().tpot, rel=0.02), "a tenth of the 5 % that may miss it"


def test_few_sequences_decide_if_the_engine_computes_no_more() -> None:
    found = target_concurrency(PLAN, max_num_seqs=16)
    assert (found.bound, found.concurrency) == (TargetBound.SEQUENCES, 16)


def test_a_small_kv_cache_decides_and_longer_requests_make_it_smaller() -> None:
    small = replace(PLAN, per_gpu=replace(PER_GPU, max_concurrency_at_2048_tokens=10.0))
    found = target_concurrency(small, max_num_seqs=256)
    assert found.bound is TargetBound.KV_CACHE
    longer = target_concurrency(small, max_num_seqs=256, load=Load(4 * 1732, 4 * 316))
    assert longer.concurrency == pytest.approx(found.concurrency / 4, rel=0.01)


def test_prompts_that_the_prefix_cache_has_leave_room_for_more_requests() -> None:
    one, other = (target_concurrency(PLAN, max_num_seqs=256, load=Load(cached=part)) for part in (0.0, 0.8))
    assert other.concurrency > 1.3 * one.concurrency


def test_prompt_heavy_requests_are_bound_by_their_first_token() -> None:
    found = target_concurrency(PLAN, max_num_seqs=256, load=Load(prompt=2048, answer=28))
    assert found.concurrency < 0.6 * target_concurrency(PLAN, max_num_seqs=256).concurrency
    relaxed = Objective(ttft=0.5, tpot=1.0)
    assert target_concurrency(PLAN, max_num_seqs=256, objective=relaxed).bound is TargetBound.FIRST_TOKEN


@pytest.mark.parametrize("plan", [replace(PLAN, step=None), replace(PLAN, per_gpu=None)])
def test_without_a_known_speed_the_target_is_the_default(plan: Plan) -> None:
    found = target_concurrency(plan, max_num_seqs=256)
    assert (found.bound, found.concurrency) == (TargetBound.UNKNOWN_SPEED, UNKNOWN_TARGET)


def test_a_short_context_leaves_the_same_kv_cache_whether_or_not_the_speed_is_known() -> None:
    per_gpu = replace(PER_GPU, max_concurrency_at_2048_tokens=10.0)
    plan = replace(PLAN, per_gpu=per_gpu, max_model_len=512)
    load = Load(prompt=200, answer=100)
    known, unknown = (
        target_concurrency(each, max_num_seqs=256, load=load).bounds[TargetBound.KV_CACHE]
        for each in (plan, replace(plan, step=None))
    )
    assert known == pytest.approx(unknown)


def test_an_encoder_without_a_kv_cache_is_not_bound_by_one() -> None:
    per_gpu = replace(PER_GPU, kv_token_bytes=0, kv_cache_tokens=0, max_concurrency_at_2048_tokens=64.0)
    plan = replace(PLAN, per_gpu=per_gpu, max_model_len=512, max_num_seqs=64, step=None)
    found = target_concurrency(plan, max_num_seqs=64)
    assert found.bounds == {TargetBound.SEQUENCES: 64, TargetBound.UNKNOWN_SPEED: UNKNOWN_TARGET}


@pytest.mark.parametrize(
    "impossible",
    [
        StepCosts(0, 0, 0, 0),
        replace(STEP, stages=0),
        replace(STEP, dense=-1.0),
        replace(STEP, expert_share=2.0),
        replace(STEP, token=inf),
    ],
)
def test_an_edited_plan_with_impossible_costs_has_an_unknown_speed(impossible: StepCosts) -> None:
    found = target_concurrency(replace(PLAN, step=impossible), max_num_seqs=256)
    assert found.bound is TargetBound.UNKNOWN_SPEED


def test_a_gpu_too_slow_for_the_objective_says_so_and_keeps_a_useful_target() -> None:
    roomy = replace(PER_GPU, max_concurrency_at_2048_tokens=2000.0)
    slow = replace(PLAN, per_gpu=roomy, step=replace(STEP, dense=0.06))
    found = target_concurrency(slow, max_num_seqs=1024, objective=Objective(ttft=10))
    assert found.bound is TargetBound.TOO_SLOW
    assert "too slow" in found.reason
    engine = serving_of_plan(slow)
    assert engine is not None
    lone, all_ = engine.at(1, Load()).tpot_of(95), engine.at(found.concurrency, Load()).tpot_of(99.5)
    assert found.objective.tpot == LEAST_SLACK * lone == pytest.approx(all_, rel=0.02)


@pytest.mark.parametrize("decodes", [True, False])
@given(st.floats(1, 30), st.floats(1, 1.5), st.integers(50, 99))
def test_a_slower_engine_never_gets_a_larger_target(
    decodes: bool,  # noqa: FBT001 - a parameter of pytest
    slow: float,
    slower: float,
    percentile: int,
) -> None:
    objective, step = Objective(percentile=percentile), replace(STEP, decodes=decodes)
    found = [
        target_concurrency(replace(PLAN, step=slowed(step, factor)), max_num_seqs=1024, objective=objective)
        for factor in (slow, slow * slower)
    ]
    assert found[1].concurrency <= found[0].concurrency
    if found[0].least_seconds and found[1].least_seconds:
        served = [one.concurrency / one.least_seconds for one in found]
        assert served[1] <= served[0] * 1.001, "nor more requests in a second"


@given(st.lists(st.integers(50, 99), min_size=2, max_size=2).map(sorted))
def test_a_higher_percentile_never_gives_a_larger_target(percentiles: list[int]) -> None:
    low, high = (
        target_concurrency(PLAN, max_num_seqs=1024, objective=Objective(percentile=each)) for each in percentiles
    )
    assert high.concurrency <= low.concurrency


def test_a_pooling_model_is_scaled_by_tokens_in_flight() -> None:
    pooling = replace(PLAN, step=replace(STEP, decodes=False))
    short, long = (
        target_concurrency(pooling, max_num_seqs=1024, load=Load(prompt=tokens, answer=1)) for tokens in (256, 2048)
    )
    assert (short.bound, long.bound) == (TargetBound.FIRST_TOKEN, TargetBound.FIRST_TOKEN)
    assert short.concurrency * 256 == pytest.approx(long.concurrency * 2048, rel=0.4)
    for tokens, found in ((256, short), (2048, long)):
        full = 8192 / STEP.seconds(0, prompt=8192, before=tokens / 2)
        used = tokens * found.concurrency / found.least_seconds / full
        assert 0.5 < used < 1, "an engine at its target has room in its batches, and not much"


@pytest.mark.parametrize("decodes", [True, False])
@given(st.floats(0, 8), st.floats(0, 8), st.floats(1, 4))
def test_prompts_and_answers_of_more_unequal_lengths_never_have_a_larger_target(
    decodes: bool,  # noqa: FBT001 - a parameter of pytest
    prompt: float,
    answer: float,
    more: float,
) -> None:
    plan = replace(PLAN, step=replace(STEP, decodes=decodes))
    loads = [Load(3000, 200, 0.0, times * prompt, times * answer) for times in (1.0, more)]
    equal, unequal = (target_concurrency(plan, max_num_seqs=1024, load=load) for load in loads)
    assert unequal.concurrency <= equal.concurrency + 0.5, "the search for it ends within half a request"


def test_a_requested_target_replaces_the_computed_one() -> None:
    found = target_concurrency(PLAN, max_num_seqs=256, requested=50)
    assert (found.bound, found.concurrency) == (TargetBound.REQUESTED, 50)


@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_a_stricter_objective_never_gives_a_larger_target(one: float, other: float) -> None:
    strict, loose = sorted((one, other))
    found = [target_concurrency(PLAN, max_num_seqs=256, objective=Objective(tpot=t)) for t in (strict, loose)]
    assert found[0].concurrency <= found[1].concurrency


GOOD = LatencySample(STEP_SECONDS, 1500, ttft=1.0, tpot=1.0)


@pytest.mark.parametrize(
    ("measured", "factor"),
    [
        pytest.param(GOOD, GROWTH, id="all in time"),
        pytest.param(replace(GOOD, ceiling=1.25), 1.25 / LEAST_STEP, id="fell from little more"),
        pytest.param(replace(GOOD, ceiling=1.0), 1.0, id="fell from here"),
        pytest.param(replace(GOOD, requests=STEP_REQUESTS), 1.0, id="few requests"),
        pytest.param(replace(GOOD, seconds=STEP_SECONDS - 1), 1.0, id="too soon"),
        pytest.param(replace(GOOD, ttft=0.996), 1.0, id="as many late ones as are permitted"),
        pytest.param(replace(GOOD, ttft=0.95, attainable=0.954), 1.0, id="prompts that are too long for any engine"),
        pytest.param(replace(GOOD, ttft=0.95, attainable=0.9), GROWTH, id="some of them were in time"),
        pytest.param(replace(GOOD, tpot=0.5), 1 / MOST_STEP, id="half of the tokens late"),
    ],
)
def test_the_target_follows_the_misses_that_fewer_requests_would_avoid(measured: LatencySample, factor: float) -> None:
    assert next_factor(1.0, measured, permitted=0.05) == pytest.approx(factor)


def test_late_first_tokens_and_late_tokens_count_together() -> None:
    one, both = replace(GOOD, ttft=0.99), replace(GOOD, ttft=0.99, tpot=0.99)
    first, second = (next_factor(1.0, measured, permitted=0.05) for measured in (one, both))
    assert second < first < 1


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), max_size=80))
def test_the_factor_stays_within_its_limits(windows: list[tuple[float, float, float]]) -> None:
    factor = 1.0
    for ttft, tpot, attainable in windows:
        measured = LatencySample(60, 1000, ttft, tpot, attainable)
        factor = next_factor(factor, measured, permitted=0.05, least=0.1, most=4.0)
        assert 0.1 <= factor <= 4.0


def test_prompts_that_may_take_longer_by_the_specification_are_not_judged_by_the_first_token() -> None:
    relaxed = Objective(ttft=2.0, ttft_per_1000=0.5)
    assert target_concurrency(PLAN, max_num_seqs=256, objective=relaxed).longest_prompt == pytest.approx(4000, rel=0.02)


@given(st.floats(1.01, 3.0))
def test_a_slower_engine_never_computes_longer_prompts_in_time(slower: float) -> None:
    slow = replace(PLAN, step=replace(STEP, token=slower * STEP.token, dense=slower * STEP.dense))
    engines = [serving_of_plan(plan) for plan in (PLAN, slow)]
    fast, other = (engine.longest_prompt(Load(), Objective()) for engine in engines if engine)
    assert 1732 < other <= fast


COMPUTED = Target(20.0, TargetBound.TOKEN_TIME, {TargetBound.TOKEN_TIME: 20.0, TargetBound.SEQUENCES: 256.0})
RECORDED = AutoscalingStatus(desired_replicas=4, target_concurrency=40, target_factor=0.8)
"""Another release had computed 50 where this one computes 20."""
RESULT = ScalingResult(Decision(4, Bound.DEMAND, Terms(), 40), factor=0.5, plan="a")


def corrected(
    recorded: AutoscalingStatus | None,
    result: ScalingResult | None = None,
    *,
    plan: str = "a",
    is_edited: bool = False,
) -> Target:
    return corrected_target(COMPUTED, recorded, result, plan=plan, recorded_plan="a", is_edited=is_edited)


@pytest.mark.parametrize(
    ("found", "target"),
    [
        pytest.param(corrected(None), 20, id="new"),
        pytest.param(corrected(RECORDED), 39.501, id="another formula"),
        pytest.param(corrected(RECORDED.model_copy(update={"target_concurrency": 16})), 16, id="the same formula"),
        pytest.param(
            corrected(RECORDED.model_copy(update={"target_factor": None})), 20, id="no engine has been judged by it"
        ),
        pytest.param(
            corrected(RECORDED.model_copy(update={"target_factor": None, "kept": 99.0})), 39.501, id="judged as right"
        ),
        pytest.param(corrected(RECORDED, is_edited=True), 16, id="another objective, with the error of the speed"),
        pytest.param(corrected(RECORDED, plan="b"), 20, id="another plan"),
        pytest.param(corrected(RECORDED, RESULT), 10, id="corrected by this process"),
        pytest.param(
            corrected(RECORDED.model_copy(update={"target_bound": "targetConcurrency"})), 16, id="the user's, until now"
        ),
        pytest.param(corrected(RECORDED.model_copy(update={"target_concurrency": 10**9})), 256, id="impossibly large"),
        pytest.param(corrected(RECORDED.model_copy(update={"target_concurrency": -9})), 1, id="impossibly small"),
        pytest.param(corrected(RECORDED.model_copy(update={"target_factor": -1.0})), 39.501, id="impossible factor"),
    ],
)
def test_engines_keep_the_target_by_which_they_were_judged(found: Target, target: float) -> None:
    assert found.concurrency == pytest.approx(target)
    assert found.concurrency == pytest.approx(max(1.0, found.computed * found.factor))


@given(st.floats(1, 300), st.floats(0.05, 12.0))
def test_a_restart_of_one_release_changes_no_number_of_the_status(computed: float, factor: float) -> None:
    first = Target(computed, TargetBound.TOKEN_TIME, {**COMPUTED.bounds, TargetBound.TOKEN_TIME: computed})
    before = first.corrected(factor)
    for _ in range(3):
        recorded = AutoscalingStatus(
            desired_replicas=1, target_concurrency=round(before.concurrency), target_factor=round(before.factor, 3)
        )
        after = corrected_target(first, recorded, None, plan="a", recorded_plan="a", is_edited=False)
        assert round(after.concurrency) == round(before.concurrency)
        assert after.factor == pytest.approx(before.factor, abs=0.0006)
        before = after
