"""Prompts and answers computed apart: break-evens, networks that are too slow, and engines for a rate."""

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import two_roles
from bench.serving_model import SIMULATED, serving_of
from bench.two_roles import KEPT_AIM, LOADS, NETWORK, kept_parts, of_prompts
from generators.model_table import models
from inference_operator.api.disaggregation import DisaggregationSpec
from inference_operator.cli.arguments import named_gpus
from inference_operator.engines.registry import ENGINES
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing import disaggregation
from inference_operator.sizing.budget import EngineOnGpus
from inference_operator.sizing.choice import choose
from inference_operator.sizing.disaggregation import (
    TCP_GBIT_PER_S,
    KVPath,
    apart_plan,
    break_even,
    carried_apart,
    gigabits,
    kv_path,
    least_prompt,
    unsendable,
)
from inference_operator.sizing.fleet import fleet_plan
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.serving import Load, serving
from inference_operator.sizing.shape import Objective, Shape, SizingInputs
from tests.testing.builders import inference_deployment, planned

OBJECTIVE = Objective()
FACTS = {name: facts for name, facts in models() if isinstance(facts, ModelFacts)}


def on_gpus(offer: GpuOffer) -> EngineOnGpus:
    return ENGINES[ENGINES.default].on_gpus("", offer)


def plan_of(model: str, gpu: str, shape: Shape | None = None) -> GpuPlan:
    found = choose(FACTS[model], [named_gpus(gpu)], on_gpus, SizingInputs(shape=shape or Shape()))
    assert isinstance(found, GpuPlan)
    return found


def path_of(plan: GpuPlan, speed: float) -> KVPath:
    return KVPath(plan.budget.kv_token_bytes * plan.shape.parallel.world_size, speed)


SMALL, LARGE = plan_of("Qwen/Qwen3-8B", "H100-80GB:8"), plan_of("Qwen/Qwen3-32B", "H100-80GB:8")
PROMPTS = plan_of("Qwen/Qwen3-8B", "H100-80GB:8", Shape(max_num_seqs=32, max_num_batched_tokens=8192))


@pytest.mark.parametrize(
    ("plan", "kib", "evens"),
    [(SMALL, 144, {10: None, 50: 1218, 100: 862, 400: 725}), (LARGE, 256, {10: None, 25: 1218, 100: 431, 400: 363})],
    ids=["Qwen3-8B", "Qwen3-32B"],
)
def test_break_evens_of_published_models(plan: GpuPlan, kib: int, evens: dict[int, int | None]) -> None:
    """Keys and values of all layers in 16 bits: 2 x layers x KV heads x 128 x 2 bytes, of 36 x 8 and 64 x 8."""
    assert path_of(plan, 1).token_bytes == kib * 1024
    assert {speed: even(plan, path_of(plan, speed)) for speed in evens} == evens


def even(plan: GpuPlan, path: KVPath, objective: Objective = OBJECTIVE) -> int | None:
    assert plan.step
    return break_even(serving(plan.step, plan.budget), path, objective, context=plan.budget.context)


def test_a_length_that_is_too_long_for_the_network_breaks_even_never() -> None:
    path = path_of(SMALL, 25)
    assert even(SMALL, path) == 5793
    assert even(SMALL, path, Objective(ttft=1)) is None
    assert even(SMALL, path, Objective(ttft=1, ttft_per_1000=0.5)) == 5793


@given(st.sampled_from([SMALL, LARGE]), st.floats(1, 1000), st.floats(1, 4), st.floats(1, 4))
def test_a_faster_network_and_a_smaller_cache_break_even_no_later(
    plan: GpuPlan, speed: float, faster: float, larger: float
) -> None:
    path = path_of(plan, speed)
    paths = (
        KVPath(path.token_bytes, speed * faster),
        path,
        KVPath(path.token_bytes * larger, speed),
    )
    evens = [even(plan, one) for one in paths]
    found = [tokens or 10**9 for tokens in evens]
    assert found == sorted(found)
    assert path.seconds(2000) == pytest.approx(2 * path.seconds(1000))
    assert all(even is None or even <= path.longest(OBJECTIVE) for path, even in zip(paths, evens, strict=True))


@given(st.integers(1, 100_000), st.floats(0.1, 400), st.floats(0.01, 60), st.floats(0, 10))
def test_a_way_is_too_long_beyond_a_quarter_of_the_objective(
    tokens: int, speed: float, ttft: float, per_1000: float
) -> None:
    path, objective = KVPath(147456, speed), Objective(ttft=ttft, ttft_per_1000=per_1000)
    allowed = max(ttft, per_1000 * tokens / 1000)
    if path.seconds(tokens) != pytest.approx(allowed / 4):
        assert bool(path.problem(tokens, objective)) == (path.seconds(tokens) > allowed / 4)


def test_the_arithmetic_of_a_network_that_is_too_slow() -> None:
    assert KVPath(147456, 10).problem(8000, Objective(ttft=1)) == (
        "The KV cache of 8,000 prompt tokens is 1.10 GiB and takes 0.94 s over 10 Gbit/s, more than a quarter of the 1"
        " s to the first token."
    )


def test_networks_have_their_speed_from_their_kind_unless_it_is_stated() -> None:
    assert gigabits(None, has_devices=False, gpus=8) == TCP_GBIT_PER_S
    assert gigabits(None, has_devices=True, gpus=8) == 400
    assert gigabits(25, has_devices=True, gpus=8) == 25


def test_the_least_prompt_is_as_stated_or_breaks_even_or_is_a_default() -> None:
    plan = planned(inference_deployment()).plan.plan
    fast, slow = ({"network": {"gigabitsPerSecond": speed}} for speed in (400, 1))
    for plan_now, apart, expected in (
        (plan, fast, 725),
        (plan, slow, 1024),
        (plan, {**fast, "minPromptTokens": 7}, 7),
        (replace(plan, step=None), fast, 1024),
        (replace(plan, per_gpu=None), fast, 1024),
    ):
        assert least_prompt(plan_now, DisaggregationSpec.model_validate(apart), OBJECTIVE) == expected
    path = kv_path(plan, DisaggregationSpec.model_validate({"network": {"resource": "rdma/ib"}}))
    assert path == KVPath(147456, 50)


def test_the_longest_prompt_that_is_in_time_is_no_part_of_a_token_shorter() -> None:
    """A length of the ladder is rounded up, beyond a longest one that is between."""
    path = KVPath(path_of(LARGE, 100).token_bytes, 100)
    assert even(LARGE, path) == 431
    for tokens, expected in ((431.01, 431), (430.9, None)):
        objective = Objective(ttft=4 * path.seconds(tokens))
        assert even(LARGE, path, objective) == expected


def test_engines_of_prompts_leave_a_quarter_of_each_objective_for_the_way() -> None:
    plan = planned(inference_deployment()).plan.plan
    found = disaggregation.of_prompts(plan, Objective(ttft=2, ttft_per_1000=0.4, tpot=0.05))[1]
    assert (found.ttft, found.ttft_per_1000, found.tpot) == pytest.approx((1.5, 0.3, 0.05))


@given(st.floats(100, 20_000), st.floats(1, 2000), st.floats(0.1, 200), st.sampled_from([25, 100, 400]))
def test_engines_apart_carry_the_rate_and_no_fewer_would(prompt: float, answer: float, rate: float, speed: int) -> None:
    load, objective, path = Load(prompt, answer), Objective(), path_of(SMALL, speed)
    found = apart_plan(PROMPTS, SMALL, load, objective, rate=rate, path=path)
    if found is None:
        return
    assert found.gpus == found.prefill_replicas + found.decode_replicas >= 2
    assert found.ratio == pytest.approx(found.prefill_replicas / found.decode_replicas)
    twice = apart_plan(PROMPTS, SMALL, load, objective, rate=2 * rate, path=path)
    assert twice
    for many, one in (
        (twice.prefill_replicas, found.prefill_replicas),
        (twice.decode_replicas, found.decode_replicas),
    ):
        assert 2 * one - 1 <= many <= 2 * one


def test_simulated_engines_of_two_roles_keep_the_objective_with_as_many_as_computed_and_not_with_half() -> None:
    """`python -m bench.disaggregation` looks for the ratio of other engines and loads too."""
    engine, load = SIMULATED["slow"], LOADS[0]
    found = carried_apart(serving_of(of_prompts(engine)), serving_of(engine), load, two_roles.OBJECTIVE, NETWORK)
    assert found
    computed, answered, keeps = found
    assert keeps
    rate = 2 * answered
    engines = ceil(rate / computed)
    first, token = kept_parts(engine, load, rate, (engines, 2))
    assert min(first, token) >= KEPT_AIM.bound / 100
    first, token = kept_parts(engine, load, rate, (engines // 2, 2))
    assert first < 0.5
    assert token >= KEPT_AIM.bound / 100, "answers wait for no prompt"


def test_it_does_not_pay_for_a_mean_and_pays_for_a_strict_percentile() -> None:
    """As the how-to says first: the gain is in the steps that long prompts lengthen for the answers beside them."""
    prompts = plan_of("Qwen/Qwen3-32B", "H100-80GB:8", Shape(max_num_seqs=32, max_num_batched_tokens=8192))
    gpus = []
    for load, objective in (
        (Load(8000.0, 400.0), Objective(percentile=50)),
        (Load(4000.0, 300.0), Objective(percentile=99, ttft=10.0)),
    ):
        one = fleet_plan(LARGE, load, objective, 20)
        apart = apart_plan(prompts, LARGE, load, objective, rate=20, path=path_of(LARGE, 400))
        assert one
        assert apart
        gpus.append((one.gpus, apart.gpus))
    assert gpus == [(68, 82), (50, 32)]


def test_what_of_a_model_is_not_sent() -> None:
    for name, what in (
        ("Qwen/Qwen3-8B", ""),
        ("deepseek-ai/DeepSeek-R1", ""),
        ("openai/gpt-oss-20b", "KV caches of which layers"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "KV caches of images"),
    ):
        assert unsendable(FACTS[name])[: len(what) or None] == what
