import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.router import MOST_SIZE, RouterSpec
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Refused
from inference_operator.router.inputs import slots
from inference_operator.router.resources import CONNECTION_BYTES, PROCESSES, connections
from inference_operator.router.waiting import QUEUE_SIZE, model, models, most_waiting, queue_size, refusal_of_queue
from tests.testing.builders import CONFIG, ENGINES, inference_deployment, inputs, planned

STRATEGIES = ("LeastOutstanding", "PrefixAffinity")
SIZES = st.integers(2, MOST_SIZE)
MEMORY = st.integers(1, 65536).map("{}Mi".format)


def _spec(size: int | None, *, strategy: str = STRATEGIES[0], memory: str = "512Mi") -> RouterSpec:
    queue = {} if size is None else {"maxSize": size}
    return RouterSpec.model_validate(
        {"queue": queue, "strategy": strategy, "resources": {"limits": {"memory": memory}}}
    )


@given(size=SIZES)
def test_the_processes_of_a_router_pod_together_hold_at_most_max_size_requests(size: int) -> None:
    assert size - PROCESSES < PROCESSES * queue_size(_spec(size, memory="64Gi")) <= size


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(memory=MEMORY)
def test_the_default_number_of_waiting_requests_fits_any_memory(strategy: str, memory: str) -> None:
    spec = _spec(None, strategy=strategy, memory=memory)
    assert refusal_of_queue(spec) is None
    assert 1 <= queue_size(spec) <= QUEUE_SIZE // 2
    assert queue_size(spec) <= max(1, connections(spec.resources) // 2)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(size=SIZES, memory=MEMORY)
def test_a_number_of_waiting_requests_is_taken_as_it_is_or_refused_with_one_that_fits(
    strategy: str, size: int, memory: str
) -> None:
    refusal = refusal_of_queue(_spec(size, strategy=strategy, memory=memory))
    most = most_waiting(_spec(size, strategy=strategy, memory=memory))
    assert (refusal is None) == (size <= most)
    assert refusal_of_queue(_spec(most, strategy=strategy, memory=memory)) is None
    if refusal is not None:
        assert f"`{most}`" in refusal.cure
        _, _, more = refusal.cure.partition("limits.memory` to `")
        needed = more.partition("`")[0]
        assert not needed or refusal_of_queue(_spec(size, strategy=strategy, memory=needed)) is None


def test_a_refused_queue_names_its_field_the_memory_and_both_fixes() -> None:
    refusal = refusal_of_queue(_spec(5000, strategy="PrefixAffinity"))
    assert refusal is not None
    assert refusal.message == (
        "spec.router.queue.maxSize: `5000` waiting requests take more than half of the memory of a router pod: up to"
        " 64 KiB each. Set it to `4096` or less, or `spec.router.resources.limits.memory` to `625Mi` or more."
    )


def test_waiting_requests_use_at_most_half_of_the_connections() -> None:
    spec = _spec(4096)
    assert refusal_of_queue(spec) is None
    assert queue_size(spec) == connections(spec.resources) // 2
    assert queue_size(spec) * CONNECTION_BYTES == 128 * 2**20


def test_a_queue_that_does_not_fit_is_refused_before_any_object_changes() -> None:
    decided = outcome(inputs(inference_deployment(router={"queue": {"maxSize": 5000}})))
    assert isinstance(decided, Refused)
    assert decided.refusal.field == "spec.router.queue.maxSize"
    assert decided.desired == {}


def test_queue_and_wait_change_the_configuration_of_routers_and_no_engine() -> None:
    before = planned(inference_deployment()).desired
    router = {"queue": {"maxSize": 100, "timeout": "1m"}, "coldStart": {"timeout": "10m"}}
    after = planned(inference_deployment(router=router)).desired
    assert after[ENGINES] == before[ENGINES]
    config = after[CONFIG]["data"]["haproxy.cfg"]
    assert "{ queue(engines) ge 50 }" in config
    assert "timeout queue 60s\n" in config
    assert "lua.hold 600\n" in config


@pytest.mark.parametrize(("start", "held"), [(None, 300), (150, 300), (151, 600), (601, 1800), (5000, 1800)])
def test_a_request_is_held_for_twice_the_time_of_a_start(start: int | None, held: int) -> None:
    assert f"lua.hold {held}\n" in planned(_started(start)).desired[CONFIG]["data"]["haproxy.cfg"]


def test_a_shorter_start_restarts_no_router() -> None:
    first = planned(_started(400)).desired
    second = planned(_started(60), children=first.values()).desired
    assert first[CONFIG]["data"] == second[CONFIG]["data"]
    asked = planned(_started(400, coldStart={"timeout": "7m"}), children=first.values()).desired
    assert "lua.hold 420\n" in asked[CONFIG]["data"]["haproxy.cfg"]
    again = planned(_started(60), children=asked.values()).desired
    assert "lua.hold 300\n" in again[CONFIG]["data"]["haproxy.cfg"], "a wait that was asked for is no default"


def _started(seconds: int | None, **router: Manifest) -> Manifest:
    raw = inference_deployment(autoscaling={"minReplicas": 0, "maxReplicas": 2}, router=router)
    return {**raw, "status": {"autoscaling": {"desiredReplicas": 1, "startSeconds": seconds}}}


@given(names=st.lists(st.text(), min_size=1))
def test_the_list_of_models_is_valid_json_between_single_quotes_for_any_names(names: list[str]) -> None:
    text = models(names)
    assert "'" not in text
    assert "\n" not in text
    answered = json.loads(text.replace("%[date]", "1").replace("%%", "%"))
    assert [one["id"] for one in answered["data"]] == names
    assert answered["object"] == "list"
    assert all(one["object"] == "model" and one["created"] == 1 for one in answered["data"])


def test_a_percent_sign_in_a_name_is_no_variable_of_haproxy() -> None:
    assert '"50%%[date]"' in model("50%[date]")


def test_a_quarter_of_a_queue_waits_in_each_process_and_less_with_little_memory() -> None:
    assert queue_size(RouterSpec()) == 512
    assert queue_size(RouterSpec.model_validate({"resources": {"limits": {"memory": "32Mi"}}})) == 128


def test_routers_have_slots_for_more_engines_than_there_are() -> None:
    assert [slots(1, 0), slots(31, 32), slots(32, 32), slots(1, 128)] == [32, 32, 64, 128]
