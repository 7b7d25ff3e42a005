"""A model that is not in the catalogue: the writes until it is served, and the retries."""

from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from inference_operator.controller.cluster import ClusterError, RejectedError
from inference_operator.jobs.attempts import FIRST_WAIT, LONGEST_WAIT
from inference_operator.jobs.inspection import MODEL_FILE
from inference_operator.jobs.inspection_result import InspectionResult, parsed_result
from inference_operator.jobs.result import Cause
from inference_operator.manifest import CONFIG_MAP, JOB, Manifest, Ref
from inference_operator.models.entry import Entry
from tests.controller.test_writes import CHILDREN, STATUS
from tests.controller.world import World
from tests.testing.builders import CONFIG, ENGINES, model_known
from tests.testing.inspected import MINE, failure, mine, over, pod_of
from tests.testing.memory_cluster import Request

GATED = failure(Cause.GATED)


def found(name: str = "Qwen/Qwen3-8B") -> Entry:
    said = parsed_result(model_known(mine(), name)["data"][MODEL_FILE])
    assert isinstance(said, Entry)
    return said


def end(world: World, said: InspectionResult | None, *, at: datetime | None = None) -> Ref:
    """End the newest Job with this termination message of its pod."""
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


async def test_an_unknown_model_takes_one_inspection_job_and_one_status_write(world: World) -> None:
    world.ask(source=MINE)
    job = await world.settle()
    assert [(one.verb, one.ref.kind) for one in job[:1]] == [("apply", JOB)]
    assert job[1:] == [STATUS]
    assert world.conditions()["Ready"] == ("False", "InspectingModel")
    assert world.conditions()["Reconciling"] == ("True", "InspectingModel")
    assert world.conditions()["ModelResolved"] == ("Unknown", "InspectingModel")


async def test_nothing_is_written_while_a_model_is_inspected(inspecting: World) -> None:
    assert await inspecting.settle() == []
    await inspecting.restart()
    assert await inspecting.settle() == []


async def test_an_inspection_result_is_stored_before_its_job_is_deleted(inspecting: World) -> None:
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


async def test_an_inspection_job_is_checked_again_without_an_event(inspecting: World) -> None:
    end(inspecting, found())
    after = await inspecting.reconcile()
    assert after is not None
    assert after.seconds is not None
    assert after.seconds <= 1


async def test_a_model_whose_result_cannot_be_stored_is_not_inspected_again(inspecting: World) -> None:
    end(inspecting, found())
    inspecting.cluster.fail_next(RejectedError("exceeded quota: configmaps"))
    await inspecting.reconcile()
    assert jobs(inspecting) == ["1"]
    await inspecting.settle()
    await inspecting.reconcile()
    assert (jobs(inspecting), len(models(inspecting))) == ([], 1)


async def test_a_restart_before_an_inspection_result_is_stored_loses_nothing(inspecting: World) -> None:
    end(inspecting, found())
    await inspecting.restart()
    await inspecting.settle()
    await inspecting.settle()
    assert (jobs(inspecting), len(models(inspecting))) == ([], 1)


async def test_a_failed_inspection_is_in_the_status_and_repeated_with_growing_waits(inspecting: World) -> None:
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
    assert inspecting.conditions()["Stalled"] == ("False", "NotStalled")


async def test_a_changed_token_starts_a_new_inspection_at_once(inspecting: World) -> None:
    end(inspecting, GATED)
    await inspecting.settle()
    inspecting.ask(source=MINE, engine={"env": [{"name": "HF_TOKEN", "value": "hf_right"}]})
    written = await inspecting.settle()
    assert [one.verb for one in written] == ["apply", "delete", "status"]
    assert jobs(inspecting) == ["1"]
    assert inspecting.conditions()["Reconciling"] == ("True", "InspectingModel")


async def test_a_requested_size_is_used_unchecked_if_the_model_cannot_be_inspected(world: World) -> None:
    world.ask(source=MINE, parallelism={"tensor": 2})
    await world.settle()
    end(world, GATED)
    await world.settle()
    await world.settle()
    assert (jobs(world), models(world)) == (["1"], []), "the failed Job has the cause"
    assert world.conditions()["ModelResolved"] == ("Unknown", "ModelGated")
    assert world.conditions()["Sized"] == ("Unknown", "PartlyEstimated")
    assert (
        world.live(ENGINES)["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    )
    world.now += LONGEST_WAIT
    assert await world.settle() == []


async def test_engines_stay_unchanged_until_a_new_model_is_inspected(serving: World) -> None:
    before = dict(serving.children())
    serving.ask(source=MINE)
    written = await serving.settle()
    assert [(one.verb, one.ref.kind) for one in written[:1]] == [("apply", JOB)]
    assert {ref: one for ref, one in serving.children().items() if ref.kind != JOB} == before
    assert serving.conditions()["Ready"] == ("True", "Serving")
    end(serving, found())
    written = await serving.settle()
    assert ENGINES in {one.ref for one in written}
    assert "Qwen/Qwen3-8B" in before[CONFIG]["data"]["haproxy.cfg"]
    assert "Qwen/Qwen3-8B" not in serving.live(CONFIG)["data"]["haproxy.cfg"], "the former repository is no name now"


async def test_a_changed_revision_is_inspected_like_another_model(inspecting: World) -> None:
    source = "hf://org/model"
    inspecting.ask(source=source)
    await inspecting.settle()
    end(inspecting, found())
    await inspecting.settle()
    await inspecting.reconcile()
    (first,) = models(inspecting)
    inspecting.ask(model={"source": source, "revision": "v2"})
    await inspecting.settle()
    assert (jobs(inspecting), models(inspecting)) == (["1"], [first])
    end(inspecting, found("Qwen/Qwen3-4B"))
    await inspecting.settle()
    await inspecting.reconcile()
    assert jobs(inspecting) == []
    (second,) = models(inspecting)
    assert second != first


async def test_a_deleted_inspection_result_is_inspected_again_while_engines_serve(inspecting: World) -> None:
    end(inspecting, found())
    await inspecting.settle()
    await inspecting.reconcile()
    engines = inspecting.live(ENGINES)
    inspecting.cluster.remove(models(inspecting)[0])
    await inspecting.settle()
    assert jobs(inspecting) == ["1"]
    assert inspecting.live(ENGINES) == engines


async def test_no_inspection_job_is_created_when_sizes_do_not_depend_on_the_model(world: World) -> None:
    world.ask(source=MINE, hardware={"device": "CPU"})
    assert {one.ref for one in await world.settle() if one.verb == "apply"} == set(CHILDREN)


async def test_no_inspection_job_is_created_for_a_refused_spec(world: World) -> None:
    world.ask(source=MINE, engine={"args": ["--port=1"]})
    assert await world.settle() == [STATUS]


async def _lived(fault: int | None) -> World:
    """The world after an inspection with a fault at the write of that number."""
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
async def test_a_fault_at_any_write_of_an_inspection_ends_in_the_same_children(fault: int) -> None:
    world = await _lived(fault)
    assert world.children() == (await _lived(None)).children()
    assert (jobs(world), len(models(world))) == ([], 1)
