"""Speculative decoding in the model of a step's time, and what it does to targets, plans and `Auto`."""

from dataclasses import replace
from math import nan
from statistics import median

import pytest
from pydantic import TypeAdapter

from bench.speculation import AIM, FITTED, rows
from inference_operator.manifest import Manifest
from inference_operator.models.drafts import accepted_part
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.planning.known_model import with_draft
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.serving import TYPICAL_LOAD, Serving, gain_of_guesses
from inference_operator.sizing.shape import Objective, ParallelSizes, Shape, Speculation
from inference_operator.sizing.steptime import GuessCosts, StepCosts
from inference_operator.sizing.stored_plan import StoredPlan, to_json
from tests.sizing.pools import model, on_gpus, pool
from tests.testing.builders import inference_deployment, inputs

GUESSES = GuessCosts(3, fixed=0.002, sequence=1e-5, cached_token=1e-9, accepted=0.5)
COSTS = StepCosts(dense=0.006, cached_token=5e-8, token=4e-5, fixed=0.001, sequence=1e-5, attention=2e-9)
OBJECTIVE = Objective()


def engine(guesses: GuessCosts | None) -> Serving:
    return Serving(replace(COSTS, guesses=guesses), 256, 8192, 800_000)


@pytest.mark.parametrize(("chance", "tokens"), [(0.0, 3), (0.5, 1), (0.5, 4), (0.8, 7), (0.999, 16)])
def test_a_chance_of_each_guess_gives_the_tokens_of_leviathan(chance: float, tokens: int) -> None:
    expected = (1 - chance ** (tokens + 1)) / (1 - chance)
    assert 1 + tokens * accepted_part(expected, tokens, tokens) == pytest.approx(expected, abs=1e-4)
    fewer = (1 - chance**2) / (1 - chance)
    assert 1 + accepted_part(expected, tokens, 1) == pytest.approx(fewer, abs=1e-4)


def test_a_step_verifies_all_guesses_and_gives_those_that_are_accepted() -> None:
    costs, plain = replace(COSTS, guesses=GUESSES), COSTS
    assert (costs.verified, costs.tokens_of_step) == (4, 2.5)
    for sequences in (1.0, 100.0):
        more = costs.seconds(sequences, context=1000) - plain.seconds(4 * sequences) - GUESSES.fixed
        assert more == pytest.approx(sequences * (1e-5 + 1000 * (5e-8 + 1e-9)) - 3 * sequences * 1e-5)
    assert engine(GUESSES).at(1, TYPICAL_LOAD).tpot < 0.6 * engine(None).at(1, TYPICAL_LOAD).tpot


def test_guesses_that_nobody_knows_to_be_accepted_change_nothing_until_they_are_measured() -> None:
    unknown, load = engine(replace(GUESSES, accepted=None)), replace(TYPICAL_LOAD, accepted=0.5)
    assert unknown.at(20, TYPICAL_LOAD) == engine(None).at(20, TYPICAL_LOAD)
    assert unknown.at(20, load) == engine(GUESSES).at(20, load)
    assert engine(None).at(20, load).tpot == engine(None).at(20, TYPICAL_LOAD).tpot
    wasted = replace(TYPICAL_LOAD, accepted=0.0)
    assert engine(GUESSES).at(20, wasted).tpot > engine(None).at(20, TYPICAL_LOAD).tpot


def test_with_more_accepted_guesses_an_engine_serves_more_within_the_objective() -> None:
    found = [
        engine(replace(GUESSES, accepted=part)).best(TYPICAL_LOAD, OBJECTIVE)[0].requests
        for part in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert found == sorted(found)
    assert found[0] < engine(None).best(TYPICAL_LOAD, OBJECTIVE)[0].requests < found[-1]


def test_a_measured_acceptance_is_that_of_the_lone_request_too() -> None:
    """Guesses that disappoint make an engine slower, and its lone request no faster than it is."""
    for load in (replace(TYPICAL_LOAD, accepted=part) for part in (0.0, 0.05)):
        published, measured = engine(GUESSES), engine(replace(GUESSES, accepted=load.accepted))
        assert published.attainable(load, OBJECTIVE) == measured.attainable(load, OBJECTIVE)
        assert published.best(load, published.attainable(load, OBJECTIVE)) == measured.best(
            load, measured.attainable(load, OBJECTIVE)
        )


def test_a_step_gives_no_more_tokens_than_an_answer_has() -> None:
    long = engine(replace(GUESSES, accepted=0.8))
    load = replace(TYPICAL_LOAD, prompt=20, answer=1)
    assert long.at(1, load).requests <= 1 / long.costs.seconds(1, prompt=20, context=load.resident)


@pytest.mark.parametrize(
    "wrong",
    [{"fixed": -1.0}, {"fixed": nan}, {"accepted": 1.5}, {"accepted": -0.1}, {"tokens": 0}, {"cached_token": -1e-9}],
)
def test_impossible_guesses_in_an_edited_plan_are_no_costs(wrong: dict[str, float]) -> None:
    assert not replace(COSTS, guesses=replace(GUESSES, **wrong)).possible  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "guesses", "least", "most", "accepted"),
    [
        ("Qwen/Qwen3-8B", Speculation(3), None, None, None),
        ("Qwen/Qwen3-8B", Speculation(3, draft="Qwen/Qwen3-0.6B"), 3e-3, 7e-3, None),
        ("Qwen/Qwen3-8B", Speculation(3, draft="org/unknown"), None, None, None),
        ("Qwen/Qwen3-8B", Speculation(3, unknown="a draft in a dialect"), None, None, None),
        (
            "openai/gpt-oss-20b",
            Speculation(3, draft="nebius/EAGLE3-gpt-oss-20b", head_bytes=800_000_000),
            2e-3,
            5e-3,
            pytest.approx(0.563, abs=0.01),
        ),
        ("deepseek-ai/DeepSeek-V3", Speculation(1, own_layer=True), 1e-3, 1e-2, 0.85),
    ],
)
def test_costs_of_what_guesses(
    name: str, guesses: Speculation, least: float | None, most: float | None, accepted: float | None
) -> None:
    (offer,) = pool("H200:8")
    shape = with_draft(Shape(ParallelSizes(1), speculation=guesses), name)
    costs = on_gpus(offer).step_costs(model(name), shape)
    assert costs is not None
    found = costs.guesses
    if least is None or most is None:
        assert found is None
        return
    assert found is not None
    assert least <= found.fixed <= most
    assert found.accepted == accepted
    assert (found.cached_token > 0) is (guesses.draft == "Qwen/Qwen3-0.6B")


def test_predictions_beside_published_gains() -> None:
    held_out = [row.error for row in rows() if row.source != FITTED]
    assert len(held_out) == 4
    assert AIM.met_by(median(row.error for row in rows()))
    assert AIM.met_by(max(held_out))


def plan_of(name: str, gpus: str, *, target: int | None = None, **fields: object) -> Plan:
    scaling: Manifest = {"autoscaling": {"maxReplicas": 2, "targetConcurrency": target}} if target else {}
    raw = inference_deployment(source=f"hf://{name}", engine=fields, **scaling)
    found = outcome(inputs(raw, nodes=[], settings=Settings(gpu_offers=(gpus,))))
    assert isinstance(found, Planned), found
    return found.plan.plan


AUTO: Manifest = {"speculative": {"method": "Auto"}, "profile": "Latency"}


@pytest.mark.parametrize(
    ("name", "fields", "target", "method"),
    [
        ("openai/gpt-oss-20b", AUTO, 16, "eagle3"),
        ("openai/gpt-oss-20b", AUTO, 1, ""),
        ("openai/gpt-oss-20b", {**AUTO, "profile": "Balanced"}, 1, "eagle3"),
        ("openai/gpt-oss-20b", {**AUTO, "speculative": {"method": "EAGLE3"}}, 1, "eagle3"),
        ("Qwen/Qwen3-8B", AUTO, 1, "draft_model"),
    ],
)
def test_auto_guesses_for_latency_where_that_gains_enough(
    name: str, fields: Manifest, target: int, method: str
) -> None:
    plan = plan_of(name, "H100:1", target=target, **fields)
    assert (plan.drafting.method if plan.drafting else "") == method
    assert ("guesses no tokens" in plan.engine_choice) is (not method)
    if not method:
        assert plan.step is not None
        assert plan.step.guesses is None
        assert f"with {target} requests at once" in plan.engine_choice


def test_a_plan_keeps_its_guesses_and_one_without_them_its_text() -> None:
    plan = plan_of("openai/gpt-oss-20b", "H100:1", speculative={"method": "EAGLE3"})
    stored = to_json(plan)
    assert stored["step"]["guesses"]["tokens"] == 6
    assert TypeAdapter(StoredPlan).validate_python(stored).step == plan.step
    assert gain_of_guesses(plan, OBJECTIVE, None) is not None
    without = plan_of("openai/gpt-oss-20b", "H100:1")
    assert "guesses" not in to_json(without)["step"]
    assert gain_of_guesses(without, OBJECTIVE, None) is None
