"""Failed requests, killed processes and interference by others, one at a time."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.api.spec import Spec
from inference_operator.api.status import NEVER_OBSERVED
from inference_operator.controller.cache import Cache
from inference_operator.controller.cluster import ClusterError, ConflictError, RejectedError
from inference_operator.controller.reconciler import Reconciler
from inference_operator.controller.resource_kind import INFERENCE_DEPLOYMENTS
from inference_operator.engines.registry import EngineRegistry
from inference_operator.manifest import INFERENCE_DEPLOYMENT
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.summed import DoubledWriteError
from inference_operator.roles.spec import RoleSpec, requested_roles, role_spec
from inference_operator.settings import Settings
from inference_operator.status.report import Requeue
from tests.controller.conftest import Reference
from tests.controller.test_writes import CHILDREN, STATUS, not_written
from tests.controller.world import RESOURCE, World
from tests.testing.builders import CONFIG, ENGINES, KEY, deployment_status
from tests.testing.memory_cluster import Request

WRITES_OF_A_NEW_RESOURCE = len([*CHILDREN, STATUS])
EVERY_WRITE = pytest.mark.parametrize("number", range(WRITES_OF_A_NEW_RESOURCE))
EVERY_CHILD = pytest.mark.parametrize("number", range(len(CHILDREN)))
WITHOUT_ROUTER_BUDGET: Mapping[str, Any] = {
    "replicas": 2,
    "router": {"replicas": 1},
    "scheduling": {"evictionWait": "0s"},
}
LOST_OR_UNANSWERED = pytest.mark.parametrize("took_effect", [False, True], ids=["lost", "unanswered"])


class Killed(BaseException):
    """The process is killed."""


@EVERY_WRITE
@LOST_OR_UNANSWERED
async def test_the_next_process_completes_the_changes_of_a_killed_process(
    world: World, reference: Reference, number: int, *, took_effect: bool
) -> None:
    world.ask()
    world.cluster.fail_next(Killed(), skip=number, took_effect=took_effect)
    with pytest.raises(Killed):
        await world.reconcile()
    await world.restart()
    left = await world.settle()
    assert len(left) == WRITES_OF_A_NEW_RESOURCE - number - took_effect
    assert world.children() == reference.children
    assert world.conditions() == reference.conditions


@EVERY_CHILD
@LOST_OR_UNANSWERED
async def test_a_failed_write_of_one_child_is_in_the_status_and_the_others_are_written(
    world: World, reference: Reference, number: int, *, took_effect: bool
) -> None:
    world.ask()
    world.cluster.fail_next(ClusterError("HTTP 500: etcd is slow"), skip=number, took_effect=took_effect)
    assert await world.reconcile() == Requeue(0.0, backoff=True)
    left = not_written(CHILDREN[number])
    assert set(world.cache_children()) == set(CHILDREN) - set(left)
    working = world.status().condition(ConditionType.RECONCILING)
    assert working is not None
    assert (working.status, working.reason) == ("True", "RequestFailed")
    assert working.message.startswith(f"{CHILDREN[number]} could not be changed: HTTP 500: etcd is slow.")
    world.cluster.events.clear()  # not even the watch tells what became of it
    assert await world.settle() == [*(Request("apply", ref) for ref in left), STATUS]
    assert world.children() == reference.children
    assert world.conditions() == reference.conditions


@LOST_OR_UNANSWERED
async def test_a_failed_status_write_raises_and_the_next_reconcile_succeeds(
    world: World, reference: Reference, *, took_effect: bool
) -> None:
    world.ask()
    world.cluster.fail_next(ClusterError("HTTP 500"), skip=len(CHILDREN), took_effect=took_effect)
    with pytest.raises(ClusterError):
        await world.reconcile()
    assert await world.settle() == ([] if took_effect else [STATUS])
    assert world.children() == reference.children
    assert world.conditions() == reference.conditions


async def test_a_permanent_failure_of_one_child_does_not_block_the_others(serving: World) -> None:
    serving.edit(CONFIG, lambda manifest: manifest["data"].clear())
    told = []
    for attempt in range(5):
        serving.cluster.fail_next(ClusterError("HTTP 503: later", retry_after=3 + attempt))
        serving.ask(replicas=2 + attempt)
        told.append(await serving.reconcile())
        assert serving.live(ENGINES)["spec"]["replicas"] == 2 + attempt
        assert serving.conditions()["Ready"] == ("True", "Serving")
        assert serving.conditions()["Reconciling"] == ("True", "RequestFailed")
    assert told == [Requeue(3.0 + attempt, backoff=True) for attempt in range(5)]
    assert Request("apply", CONFIG) in await serving.settle()
    assert serving.conditions()["Reconciling"] != ("True", "RequestFailed")


@EVERY_CHILD
async def test_a_conflicting_write_is_in_the_status_and_is_repeated(
    world: World, reference: Reference, number: int
) -> None:
    world.ask()
    world.cluster.fail_next(ConflictError("somebody was faster"), skip=number)
    again = await world.reconcile()
    assert again is not None
    assert world.conditions()["Reconciling"] == ("True", "WaitingForDeletion")
    await world.settle()
    assert world.children() == reference.children
    assert world.conditions() == reference.conditions


@EVERY_CHILD
async def test_a_rejected_child_is_named_in_the_status_and_the_others_are_created(
    world: World, reference: Reference, number: int
) -> None:
    world.ask()
    world.cluster.fail_next(RejectedError("exceeded quota: small"), skip=number)
    again = await world.reconcile()
    assert again is not None
    stalled = world.status().conditions[2]
    assert (stalled.status, stalled.reason) == ("True", "ChildRejected")
    assert stalled.message.startswith(f"{CHILDREN[number]} was rejected: exceeded quota: small. Change what")
    assert set(world.children()) == set(CHILDREN) - set(not_written(CHILDREN[number]))
    await world.settle()
    assert world.children() == reference.children
    assert world.conditions() == reference.conditions


async def test_a_refused_edit_of_the_spec_does_not_change_serving_children(serving: World) -> None:
    before = serving.cluster.live()
    del before[RESOURCE]
    serving.ask(source="gs://bucket/qwen")
    assert await serving.settle() == [STATUS]
    after = serving.cluster.live()
    del after[RESOURCE]
    assert after == before
    assert serving.conditions() == {
        "Ready": ("True", "Serving"),
        "Reconciling": ("False", "Settled"),
        "Stalled": ("True", "InvalidModelSource"),
        "ModelResolved": ("Unknown", "ModelUnknown"),
        "Sized": ("True", "Fits"),
        "EnginesAvailable": ("True", "Serving"),
        "RouterAvailable": ("True", "Serving"),
    }
    serving.ask()
    assert await serving.settle() == [STATUS]
    assert serving.conditions()["Stalled"][0] == "False"


async def test_a_new_resource_with_a_refused_spec_gets_a_status_and_no_children(world: World) -> None:
    world.ask(source="gs://bucket/qwen")
    assert await world.settle() == [STATUS]
    assert set(world.cluster.live()) == {RESOURCE}
    assert world.conditions()["Ready"] == ("False", "InvalidModelSource")


async def test_engines_that_stay_unready_set_stalled_after_the_deadline_without_an_event(serving: World) -> None:
    serving.cluster.set_status(ENGINES, deployment_status(1, ready=0))
    again = await serving.reconcile()
    assert again is not None
    assert again.seconds == 2100
    assert serving.conditions()["Ready"] == ("False", "EnginesUnavailable")
    assert serving.conditions()["Stalled"][0] == "False"
    serving.now += timedelta(seconds=again.seconds)
    assert await serving.reconcile() is None
    assert serving.conditions()["Stalled"] == ("True", "ProgressDeadlineExceeded")


async def test_a_status_that_cannot_be_written_is_written_later(world: World) -> None:
    world.ask()
    world.cluster.fail_next(RejectedError("no"), skip=len(CHILDREN))
    with pytest.raises(RejectedError):
        await world.reconcile()
    assert await world.settle() == [STATUS]


async def test_a_resource_that_vanishes_during_its_reconcile_causes_no_error(world: World) -> None:
    world.ask()
    world.deliver()
    world.cluster.remove(RESOURCE)
    await world.reconciler.reconcile(KEY)
    assert world.deliver() == {KEY}
    world.cluster.collect_garbage()
    assert await world.settle() == []


async def test_a_deletion_without_a_watch_event_is_repaired_after_the_next_listing(settled: World) -> None:
    settled.cluster.remove(CONFIG)
    settled.cluster.events.clear()
    assert await settled.settle() == []
    assert await settled.list_all() == {KEY}
    assert await settled.settle() == [Request("apply", CONFIG)]


async def test_events_of_older_versions_change_nothing(serving: World) -> None:
    old = serving.live(ENGINES)
    serving.ask(replicas=2)
    await serving.settle()
    for _ in range(2):
        serving.cluster.events.append(("MODIFIED", old))
    assert serving.deliver() == set()
    assert await serving.settle() == []


async def test_a_deletion_event_that_arrives_after_the_object_was_created_again_causes_no_write(serving: World) -> None:
    serving.ask(**WITHOUT_ROUTER_BUDGET)
    serving.deliver()
    await serving.reconciler.reconcile(KEY)
    held_back = [event for event in serving.cluster.events if event[0] == "DELETED"]
    serving.cluster.events.clear()
    serving.ask(router={"replicas": 2})
    await serving.settle()
    assert len(held_back) == 1, "the budget of the routers"
    serving.cluster.events.extend(held_back)
    assert await serving.settle() == []


async def test_watch_events_of_own_writes_queue_no_reconcile(world: World) -> None:
    world.ask()
    await world.reconcile()
    assert len(world.cluster.events) == WRITES_OF_A_NEW_RESOURCE
    assert world.deliver() == set()
    world.ask(**WITHOUT_ROUTER_BUDGET)
    world.deliver()
    await world.reconciler.reconcile(KEY)
    assert [event for event, _ in world.cluster.events if event == "DELETED"] == ["DELETED"]
    assert world.deliver() == set()


async def test_a_status_for_an_outdated_spec_is_not_written(world: World) -> None:
    world.ask()
    world.deliver()
    world.ask(replicas=2)
    await world.reconciler.reconcile(KEY)
    assert world.status().observed_generation == NEVER_OBSERVED
    await world.settle()
    assert world.status().observed_generation == 2
    assert world.status().ready == "0/2"


async def test_a_bug_of_the_operator_is_in_the_status_without_the_exceptions_text(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ask()
    await world.settle()
    before = world.children()
    url = world.status().url

    def broken(_: object) -> NoReturn:
        raise ZeroDivisionError("hf_secret in a text of somebody else")

    with monkeypatch.context() as patch:
        kind = replace(INFERENCE_DEPLOYMENTS, decide=broken)
        patch.setattr(world.cache, "kinds", {INFERENCE_DEPLOYMENT: kind})
        world.ask(replicas=2)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await world.reconcile()
    assert world.conditions()[ConditionType.STALLED] == ("True", "OperatorError")
    assert world.conditions()[ConditionType.RECONCILING] == ("False", "Settled"), "as kstatus reads it: failed"
    assert "secret" not in world.status().message
    assert world.status().url == url, "the rest of the status stays"
    assert world.status().observed_generation == world.live(RESOURCE)["metadata"]["generation"]
    assert world.children() == before
    statuses = [request for request in world.cluster.writes if request.verb == "status"]
    assert len(statuses) == 2, "a repeated failure writes nothing"
    await world.settle()
    assert world.conditions()[ConditionType.STALLED] == ("False", "NotStalled")


async def test_two_features_that_write_one_object_fail_in_the_status_and_change_nothing(world: World) -> None:
    """A role whose workload has the name of the routers' Deployment stands for such a mistake."""

    def doubled(spec: Spec, settings: Settings, engines: EngineRegistry) -> tuple[RoleSpec, ...]:
        (engine,) = requested_roles(spec, settings, engines)
        return engine, role_spec(ROUTER, engine.engine, spec, settings)

    world.ask()
    await world.settle()
    before, nodes = world.children(), world.cache.nodes
    world.cache = Cache(world.settings, roles=doubled)
    world.cache.nodes = nodes
    world.reconciler = Reconciler(world.cluster, world.cache, lambda: world.now)
    await world.list_all()
    with pytest.raises(DoubledWriteError, match="qwen-router by engines and routers"):
        await world.reconcile()
    assert world.conditions()[ConditionType.STALLED] == ("True", "OperatorError")
    assert world.children() == before
