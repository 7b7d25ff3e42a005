"""The room of an engine, which routers read, from what its engines have measured."""

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from inference_operator.autoscaling.target import room
from inference_operator.manifest import SERVICE, Manifest
from inference_operator.objects.names import ENGINE, ROUTER, headless_service_name
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.router import children as children_module
from inference_operator.router.entry import ROOM_FILE
from inference_operator.router.process import CONFIG_FILE
from inference_operator.sizing.serving import FULL, Load
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, PodView
from inference_operator.views.samples import EngineActivity, EngineSample, Histogram, Samples, TokenCounts
from tests.testing.builders import CONFIG, NOW, ROUTERS, inference_deployment, inputs, model_known

RAW = inference_deployment()
LONG = TokenCounts(requests=1000, prompt=20_000_000, answer=1_000_000)
"""Prompts of 20,000 tokens, and answers of 1,000."""


def decided(
    tokens: TokenCounts | None,
    children: Iterable[Manifest] = (),
    *routers: PodView,
    raw: Manifest = RAW,
    cache: int | None = None,
    answers: Histogram | None = None,
) -> Planned:
    sample = EngineSample(
        "qwen", running=3, waiting=0, progress=(7.0,), tokens=tokens, kv_cache_tokens=cache, answers=answers
    )
    asked = inputs(raw, children=[model_known(raw), *children], pods=[_pod("a", ENGINE), *routers])
    found = outcome(replace(asked, samples=Samples({"a": EngineActivity(sample, sessions=3, at=1.0)})))
    assert isinstance(found, Planned), found
    return found


def _pod(name: str, component: str, template: str = "") -> PodView:
    view = PodView(name, component, NOW, ready=True, terminating=False, failed=False, problem=None, uid=name)
    return replace(view, template=template)


def text(found: Planned) -> str:
    return str(found.desired[CONFIG]["data"].get(ROOM_FILE, ""))


def test_the_room_is_what_the_cache_holds_of_requests_of_the_measured_length() -> None:
    found = decided(LONG)
    plan = found.roles[0].plan.plan
    assert plan.per_gpu
    held = room(plan, Load(20_000, 1000, answer_spread=1.0))
    assert held
    assert text(found) == f"e {int(held)}\n"
    assert 0.8 * plan.per_gpu.kv_cache_tokens / 21_000 <= int(held) <= plan.per_gpu.kv_cache_tokens / 21_000


@pytest.mark.parametrize(
    ("short", "share"), [(0, 0.5), (500, 1.0), (900, 5.0)], ids=["equal", "half of them long", "a tenth of them long"]
)
def test_a_running_answer_has_half_of_its_tokens_and_more_where_long_ones_outlast_short_ones(
    short: float, share: float
) -> None:
    lengths = Histogram((0.0, 999.9, 1000.0, inf), (short, short, 1000.0, 1000.0), 0.0)
    tokens, on_cpus = TokenCounts(1000, 100_000, 1_000_000), inference_deployment(hardware={"device": "CPU"})
    found = text(decided(tokens, raw=on_cpus, cache=70_000, answers=lengths))
    assert found == f"e {int(FULL * 70_000 / (100 + 1000 * share))}\n"


def test_on_cpus_the_cache_is_what_the_engine_reports_and_the_number_stays_while_no_engine_does() -> None:
    on_cpus = inference_deployment(hardware={"device": "CPU"})
    assert text(decided(LONG, raw=on_cpus)) == ""
    reported = decided(LONG, raw=on_cpus, cache=70_000)
    assert text(reported) == "e 3\n"
    assert text(decided(None, [reported.desired[CONFIG]], raw=on_cpus)) == "e 3\n"


@pytest.mark.parametrize(
    "tokens",
    [None, TokenCounts(199, 20_000_000, 1_000_000), TokenCounts(1000, 0, 0)],
    ids=["not counted", "too few", "no prompts"],
)
def test_without_measured_answers_there_is_no_number_and_a_former_one_stays(tokens: TokenCounts | None) -> None:
    assert text(decided(tokens)) == ""
    live = decided(LONG).desired[CONFIG]
    assert text(decided(tokens, [live])) == live["data"][ROOM_FILE]


def test_a_model_that_keeps_nothing_in_the_cache_has_not_the_number_of_the_one_before() -> None:
    assert text(decided(TokenCounts(1000, 20_000_000, 0), [decided(LONG).desired[CONFIG]])) == ""


@pytest.mark.parametrize(("answer", "cached", "longer"), [(1_100_000, 0, False), (9_000_000, 0, True)])
def test_lengths_that_differ_little_write_nothing(answer: float, cached: float, *, longer: bool) -> None:
    live = decided(LONG).desired[CONFIG]
    now = decided(replace(LONG, answer=answer, cached=cached), [live]).desired[CONFIG]
    assert (now != live) == longer


def test_short_requests_are_bound_by_the_sequences_of_the_engine_and_cached_prompts_are_there_once() -> None:
    short = decided(TokenCounts(1000, 10_000, 10_000))
    assert text(short) == f"e {short.roles[0].process.max_concurrency}\n"
    plan: Any = short.roles[0].plan.plan
    assert room(plan, Load(2000, 500, 0.75)) == room(plan, Load(500, 500))


def test_routers_of_an_earlier_release_get_neither_the_number_nor_the_service_of_routers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as earlier:
        files = {CONFIG_FILE: "of an earlier release"}
        earlier.setattr(children_module, "config_files", lambda _: files)
        live = decided(LONG).desired
    template = live[ROUTERS]["spec"]["template"]["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION]
    kept = decided(LONG, live.values(), _pod("r", ROUTER, template)).desired
    assert (kept[CONFIG]["data"], kept[ROUTERS]) == (files, live[ROUTERS])
    of_routers = replace(CONFIG, kind=SERVICE, name=headless_service_name("qwen", ROUTER))
    assert of_routers not in kept
    renewed = decided(LONG, live.values()).desired
    assert of_routers in renewed
    assert ROOM_FILE in renewed[CONFIG]["data"]
