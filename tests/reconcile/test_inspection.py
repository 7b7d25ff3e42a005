"""A model that no catalogue knows: what is written until it is served, and what is tried again."""

from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from inference_operator.manifest import CONFIG_MAP, JOB, Manifest, Ref
from inference_operator.models.entry import Entry
from inference_operator.models.inspected import Cause, Inspection, inspection
from inference_operator.models.progress import FIRST_WAIT, LONGEST_WAIT
from inference_operator.reconcile.cluster import ClusterError, RejectedError
from inference_operator.resources.model_config_map import MODEL_FILE
from tests.builders import CONFIG, ENGINES, ROUTERS, model_known
from tests.inspected import MINE, failure, mine, over, pod_of
from tests.memory_cluster import Request
from tests.reconcile.test_writes import CHILDREN, STATUS
from tests.reconcile.world import World

GATED = failure(Cause.GATED)


def found(name: str = "Qwen/Qwen3-8B") -> Entry:
    said = inspection(model_known(mine(), name)["data"][MODEL_FILE])
    assert isinstance(said, Entry)
    return said


def end(world: World, said: Inspection | None, *, at: datetime | None = None) -> Ref:
    """Let the pod of the newest Job say this, and its controller know that it is over."""
    job = newest_job(world)
    if said is not None:
        pod = pod_of(job, said)
        world.cluster.apply_as("kubelet", pod)
        world.cluster.set_status(Ref.of(pod), pod["status"])
    kind = "Complete" if isinstance(said, Entry) else "Failed"
    world.cluster.set_status(Ref.of(job), over(kind, at=at or world.now))
    return Ref.of(job)


def newest_job(world: World) -> Manifest:
    return max((one for ref, one in world.cluster.live().items() if ref.kind == JOB), key=_number)


def _number(job: Manifest) -> int:
    return int(job["metadata"]["name"].rpartition("-")[2])


def jobs(world: World) -> list[str]:
    return sorted(ref.name.rpartition("-")[2] for ref in world.cluster.live() if ref.kind == JOB)


def models(world: World) -> list[Ref]:
    return [ref for ref in world.cluster.live() if ref.kind == CONFIG_MAP and ref != CONFIG]


@pytest.fixture
async def inspecting(world: World) -> World:
    world.ask(source=MINE)
    await world.settle()
    return world


async def test_an_unknown_model_takes_a_job_and_a_status(world: World) -> None:
    world.ask(source=MINE)
    job = await world.settle()
    assert [(one.verb, one.ref.kind) for one in job[:1]] == [("apply", JOB)]
    assert job[1:] == [STATUS]
    assert world.conditions()["Ready"] == ("False", "InspectingModel")
    assert world.conditions()["Reconciling"] == ("True", "InspectingModel")
    assert world.conditions()["ModelResolved"] == ("Unknown", "InspectingModel")


async def test_while_it_is_inspected_nothing_is_written(inspecting: World) -> None:
    assert await inspecting.settle() == []
    await inspecting.restart()
    assert await inspecting.settle() == []


async def test_what_is_found_is_kept_before_the_job_goes(inspecting: World) -> None:
    job = end(inspecting, found())
    written = await inspecting.settle()
    assert {one.ref for one in written if one.verb == "apply"} == {*models(inspecting), *CHILDREN}
    assert not [one for one in written if one.verb == "delete"]
    assert inspecting.conditions()["ModelResolved"] == ("True", "ModelKnown")
    assert inspecting.conditions()["Sized"] == ("True", "Fits")
    after = await inspecting.reconcile()
    assert inspecting.cluster.writes[-1] == Request("delete", job)
    assert await inspecting.settle() == []
    assert after is None or not after.backoff


async def test_the_job_is_looked_after_without_an_event(inspecting: World) -> None:
    end(inspecting, found())
    after = await inspecting.reconcile()
    assert after is not None
    assert after.seconds is not None
    assert after.seconds <= 1


async def test_what_cannot_be_kept_is_not_inspected_again(inspecting: World) -> None:
    end(inspecting, found())
    inspecting.cluster.fail_next(RejectedError("exceeded quota: configmaps"))
    await inspecting.reconcile()
    assert jobs(inspecting) == ["1"]
    await inspecting.settle()
    await inspecting.reconcile()
    assert (jobs(inspecting), len(models(inspecting))) == ([], 1)


async def test_a_restart_between_the_answer_and_its_keeping_loses_nothing(inspecting: World) -> None:
    end(inspecting, found())
    await inspecting.restart()
    await inspecting.settle()
    await inspecting.settle()
    assert (jobs(inspecting), len(models(inspecting))) == ([], 1)


async def test_a_failure_is_told_and_tried_again_later_each_time(inspecting: World) -> None:
    before = timedelta()
    for attempt in range(1, 9):
        end(inspecting, GATED)
        await inspecting.settle()
        assert inspecting.conditions()["Stalled"] == ("True", "ModelGated")
        assert inspecting.conditions()["ModelResolved"] == ("False", "ModelGated")
        assert jobs(inspecting) == [str(attempt)]
        after = await inspecting.reconcile()
        assert after is not None
        assert after.seconds is not None
        wait = timedelta(seconds=after.seconds)
        assert max(before, FIRST_WAIT) <= wait <= LONGEST_WAIT
        before = wait
        inspecting.now += wait
        written = await inspecting.settle()
        assert [one.verb for one in written] == ["apply"], "no status: nothing has changed for its reader"
        assert jobs(inspecting) == [str(attempt), str(attempt + 1)]
        assert inspecting.conditions()["Stalled"] == ("True", "ModelGated")
    end(inspecting, found())
    await inspecting.settle()
    assert inspecting.conditions()["Stalled"] == ("False", "Unobstructed")


async def test_another_token_is_tried_at_once(inspecting: World) -> None:
    end(inspecting, GATED)
    await inspecting.settle()
    inspecting.ask(source=MINE, engine={"env": [{"name": "HF_TOKEN", "value": "hf_right"}]})
    written = await inspecting.settle()
    assert [one.verb for one in written] == ["apply", "delete", "status"]
    assert jobs(inspecting) == ["1"]
    assert inspecting.conditions()["Reconciling"] == ("True", "InspectingModel")


async def test_where_nothing_can_be_read_a_given_size_is_taken_unchecked_and_that_is_the_end(world: World) -> None:
    world.ask(source=MINE, parallelism={"tensor": 2})
    await world.settle()
    end(world, GATED)
    await world.settle()
    await world.settle()
    assert (jobs(world), models(world)) == ([], [])
    assert world.conditions()["Sized"] == ("Unknown", "NotCounted")
    assert (
        world.live(ENGINES)["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    )
    world.now += LONGEST_WAIT
    assert await world.settle() == []


async def test_another_model_leaves_the_engines_until_it_is_known(serving: World) -> None:
    before = dict(serving.children())
    serving.ask(source=MINE)
    written = await serving.settle()
    assert [(one.verb, one.ref.kind) for one in written[:1]] == [("apply", JOB)]
    assert {ref: one for ref, one in serving.children().items() if ref.kind != JOB} == before
    assert serving.conditions()["Ready"] == ("True", "Serving")
    end(serving, found())
    written = await serving.settle()
    assert ENGINES in {one.ref for one in written}
    assert ROUTERS not in {one.ref for one in written}


async def test_a_revision_is_another_model(inspecting: World) -> None:
    end(inspecting, found())
    await inspecting.settle()
    await inspecting.reconcile()
    (first,) = models(inspecting)
    inspecting.ask(source=MINE, engine={"args": ["--revision=v2"]})
    await inspecting.settle()
    assert (jobs(inspecting), models(inspecting)) == (["1"], [first])
    end(inspecting, found("Qwen/Qwen3-4B"))
    await inspecting.settle()
    await inspecting.reconcile()
    assert jobs(inspecting) == []
    (second,) = models(inspecting)
    assert second != first


async def test_a_deleted_answer_is_asked_for_again_beside_what_serves(inspecting: World) -> None:
    end(inspecting, found())
    await inspecting.settle()
    await inspecting.reconcile()
    engines = inspecting.live(ENGINES)
    inspecting.cluster.remove(models(inspecting)[0])
    await inspecting.settle()
    assert jobs(inspecting) == ["1"]
    assert inspecting.live(ENGINES) == engines


async def test_no_job_is_made_where_nothing_depends_on_it(world: World) -> None:
    world.ask(source=MINE, hardware={"device": "CPU"})
    assert {one.ref for one in await world.settle() if one.verb == "apply"} == set(CHILDREN)


async def test_a_refused_spec_is_not_inspected(world: World) -> None:
    world.ask(source=MINE, engine={"args": ["--port=1"]})
    assert await world.settle() == [STATUS]


async def _lived(fault: int | None) -> World:
    """A world in which a model has been inspected, with a fault at the write of that number."""
    world = World()
    world.ask(source=MINE)
    if fault is not None:
        world.cluster.fail_next(ClusterError("no answer"), skip=fault)
    for said in (None, found()):
        if said:
            end(world, said)
        for _ in range(4):
            with suppress(ClusterError):  # of a status: the round is tried again
                await world.settle()
    return world


@pytest.mark.parametrize("fault", range(12))
async def test_a_fault_at_any_write_ends_in_the_same_children(fault: int) -> None:
    world = await _lived(fault)
    assert world.children() == (await _lived(None)).children()
    assert (jobs(world), len(models(world))) == ([], 1)
