"""The claim of `spec.cache`: created, kept through edits, and deleted with its resource or retained."""

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.jobs.attempts import ATTEMPT_ANNOTATION
from inference_operator.jobs.placement import only_node, placement_of
from inference_operator.manifest import CLAIM, POD, SYSTEM_LABEL, Manifest, Ref
from inference_operator.objects.child import ADOPT_ANNOTATION, ALLOWED, OWNER_ANNOTATION
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.views.lookups import ClaimLookup, ClaimView, Unavailable
from tests.controller.downloads import download_jobs, finish_downloads, show_pod
from tests.controller.test_healing import add_pod
from tests.controller.world import RESOURCE, World
from tests.testing.builders import ENGINES, KEY, ready_pod
from tests.testing.memory_cluster import BIRTH

OWN = Ref(CLAIM, KEY.namespace, f"{KEY.name}-cache")
CACHE = {"size": "40Gi"}
ON_LINUX = {"nodeSelector": {SYSTEM_LABEL: "linux"}}
"""Where a Job runs that nothing binds to a node."""


@pytest.fixture
async def cached(world: World) -> World:
    world.ask(cache=CACHE)
    await world.settle()
    return world


def volumes(pod: Manifest) -> list[str]:
    found = [volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]]
    return [claim["claimName"] for claim in found if claim]


async def test_the_claim_is_created_with_its_size_and_used_by_the_job_and_by_engines(cached: World) -> None:
    claim = cached.live(OWN)
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "40Gi"}}}
    (job,) = download_jobs(cached)
    assert volumes(job["spec"]["template"]) == [OWN.name]
    await finish_downloads(cached)
    assert volumes(cached.live(ENGINES)["spec"]["template"]) == [OWN.name]
    assert await cached.settle() == []


async def test_a_claim_of_somebody_else_with_the_name_of_the_cache_is_mounted_by_no_pod(world: World) -> None:
    """Its writer may have no right to use that claim."""
    theirs = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    meta = {"name": OWN.name, "namespace": OWN.namespace, "labels": {"app": "theirs"}}
    world.cluster.apply_as("somebody-else", {**theirs, "metadata": meta})
    world.ask(cache=CACHE)
    await world.settle()
    assert download_jobs(world) == []
    assert ENGINES not in world.cluster.live()
    stalled = world.status().condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "NameConflict")
    world.cluster.remove(OWN)
    await world.settle()
    assert len(download_jobs(world)) == 1
    await finish_downloads(world)
    assert volumes(world.live(ENGINES)["spec"]["template"]) == [OWN.name]


@pytest.mark.parametrize(
    "spec",
    [
        {"cache": CACHE, "paused": True},
        {"cache": {**CACHE, "accessMode": "ReadWriteMany"}, "engine": {"args": ["--port=1"]}},
        {"cache": CACHE, "source": "hf://Qwen/Qwen3-0.6B"},
        {"cache": {"claimName": "another"}},
        {},
    ],
)
async def test_the_claim_stays_through_edits_pauses_and_wrong_specifications(
    cached: World, spec: dict[str, object]
) -> None:
    before = cached.live(OWN)["metadata"]["uid"]
    cached.ask(**spec)  # type: ignore[arg-type]
    await cached.settle()
    assert cached.live(OWN)["metadata"]["uid"] == before


@pytest.mark.parametrize("kept", [1, 0])
async def test_the_claim_is_deleted_with_its_resource_unless_it_is_retained(world: World, kept: int) -> None:
    world.ask(cache={**CACHE, "whenDeleted": "Retain" if kept else "Delete"})
    await world.settle()
    world.cluster.remove(RESOURCE)
    world.cluster.collect_garbage()
    assert (world.cluster.peek(OWN) is not None) is bool(kept)
    assert world.cluster.peek(ENGINES) is None


@pytest.fixture
async def left(world: World) -> World:
    """A claim that a resource has left, which is gone."""
    world.ask(cache={**CACHE, "whenDeleted": "Retain"})
    await world.settle()
    world.cluster.remove(RESOURCE)
    world.cluster.collect_garbage()
    await world.restart()
    return world


@pytest.mark.parametrize("kept", ["Retain", "Delete"])
async def test_a_resource_of_the_same_name_gets_no_claim_that_another_one_has_left(left: World, kept: str) -> None:
    before = left.live(OWN)
    left.ask(cache={**CACHE, "whenDeleted": kept})
    await left.settle()
    assert left.live(OWN) == before
    assert left.conditions()["Stalled"] == ("True", "NameConflict")
    message = left.status().condition(ConditionType.STALLED).message  # type: ignore[union-attr]
    assert f'take it over with the annotation {ADOPT_ANNOTATION}: "true"' in message
    assert not download_jobs(left)
    assert left.cluster.peek(ENGINES) is None


@pytest.mark.parametrize("kept", ["Retain", "Delete"])
async def test_a_claim_that_another_one_has_left_is_taken_over_if_its_annotation_allows_it(
    left: World, kept: str
) -> None:
    uid = left.live(OWN)["metadata"]["uid"]
    meta = {"name": OWN.name, "namespace": OWN.namespace, "annotations": {ADOPT_ANNOTATION: ALLOWED}}
    left.cluster.apply_as("administrator", {"apiVersion": "v1", "kind": CLAIM.name, "metadata": meta})
    left.ask(cache={**CACHE, "whenDeleted": kept})
    await left.settle()
    claim = left.live(OWN)["metadata"]
    assert (claim["uid"], len(claim.get("ownerReferences") or ())) == (uid, int(kept == "Delete"))
    assert left.conditions()["Reconciling"] == ("True", "DownloadingModel")
    (job,) = download_jobs(left)
    assert volumes(job["spec"]["template"]) == [OWN.name]


async def test_a_claim_that_another_one_has_left_is_used_if_the_resource_names_it(left: World) -> None:
    before = left.live(OWN)
    left.ask(cache={"claimName": OWN.name})
    await left.settle()
    left.cache.put_lookup(ClaimLookup(KEY.namespace, OWN.name), ClaimView(("ReadWriteOnce",)))
    await left.reconcile()
    await left.settle()
    await finish_downloads(left)
    assert volumes(left.live(ENGINES)["spec"]["template"]) == [OWN.name]
    assert left.live(OWN) == before


async def older_release(world: World, claim_created: str) -> None:
    """Make the retained claim one of a release that wrote no uid into it, and start the operator again."""
    world.cluster.created[OWN] = claim_created
    world.cluster.edit(OWN, lambda live: live["metadata"]["annotations"].pop(OWNER_ANNOTATION))
    await world.restart()
    await world.settle()


SECOND_BEFORE, SECOND_AFTER = BIRTH.replace("05Z", "04Z"), BIRTH.replace("05Z", "06Z")


@pytest.mark.parametrize("created", [SECOND_BEFORE, SECOND_AFTER])
@pytest.mark.parametrize("serves", [True, False])
async def test_a_claim_of_a_release_without_uids_stays_with_its_resource(
    world: World, created: str, *, serves: bool
) -> None:
    """An engine mounts it, though a former resource made it; or a Job, before there is any engine."""
    world.ask(cache={**CACHE, "whenDeleted": "Retain"})
    await world.settle()
    if serves:
        await finish_downloads(world)
    await older_release(world, created)
    assert world.live(OWN)["metadata"]["annotations"][OWNER_ANNOTATION] == world.live(RESOURCE)["metadata"]["uid"]
    assert world.conditions()["Stalled"][0] == "False"


@pytest.mark.parametrize(("created", "taken"), [(SECOND_BEFORE, False), (SECOND_AFTER, True)])
async def test_a_claim_of_a_release_without_uids_that_no_pod_mounts_belongs_to_no_later_resource(
    left: World, created: str, *, taken: bool
) -> None:
    left.ask(cache={**CACHE, "whenDeleted": "Retain"})
    await older_release(left, created)
    assert (OWNER_ANNOTATION in left.live(OWN)["metadata"]["annotations"]) is taken
    assert (left.conditions()["Stalled"] == ("True", "NameConflict")) is not taken


async def test_retaining_an_existing_claim_takes_its_owner_reference_away(cached: World) -> None:
    cached.ask(cache={**CACHE, "whenDeleted": "Retain"})
    await cached.settle()
    assert not cached.live(OWN)["metadata"].get("ownerReferences")
    assert await cached.settle() == []


async def test_a_claim_that_is_no_longer_retained_gets_its_owner_by_an_apply_that_can_take_it_away_again(
    cached: World,
) -> None:
    for kept in (True, False, True):
        cached.ask(cache={**CACHE, "whenDeleted": "Retain" if kept else "Delete"})
        await cached.settle()
        assert bool(cached.live(OWN)["metadata"].get("ownerReferences")) is not kept
    assert not [request for request in cached.cluster.requests if request.verb == "adopt"]


async def test_a_claim_that_is_too_small_for_the_model_is_refused_before_anything_is_created(world: World) -> None:
    world.ask(cache={"size": "10Gi"})
    await world.settle()
    assert world.conditions()["Stalled"] == ("True", "InvalidSpec")
    message = world.status().condition(ConditionType.STALLED).message  # type: ignore[union-attr]
    assert "`10Gi` is too small: the model has 15.3 GiB" in message
    assert "Set at least `26Gi`, or remove it." in message
    assert world.cluster.peek(OWN) is None
    assert not download_jobs(world)


async def test_a_larger_size_is_written_to_the_claim_and_restarts_no_engine(cached: World) -> None:
    await finish_downloads(cached)
    before = cached.live(ENGINES)["spec"]["template"]
    cached.ask(cache={"size": "80Gi"})
    await cached.settle()
    assert cached.live(OWN)["spec"]["resources"]["requests"]["storage"] == "80Gi"
    assert cached.live(ENGINES)["spec"]["template"] == before


@pytest.mark.parametrize(("modes", "limited"), [(("ReadWriteOnce",), "models"), (("ReadWriteMany",), "")])
async def test_the_access_modes_of_a_claim_of_the_users_are_looked_up(
    world: World, modes: tuple[str, ...], limited: str
) -> None:
    world.ask(cache={"claimName": "models"})
    await world.settle()
    again = await world.reconcile()
    look = ClaimLookup(KEY.namespace, "models")
    assert again is not None
    assert look in again.lookups
    world.cache.put_lookup(look, ClaimView(modes))
    found = world.cache.inputs(KEY, now=world.now)
    assert found is not None
    decided = outcome(found)
    assert isinstance(decided, Planned)
    assert decided.one_node_claim == limited


def place_engine(world: World, node: str) -> None:
    """Let the only engine be ready on a node."""
    for ref in [ref for ref in world.cluster.live() if ref.kind == POD and ref.name.startswith("engine-")]:
        world.cluster.remove(ref)
    add_pod(world, f"engine-{node}", ready_pod(), node=node)


def own_placement(job: Manifest) -> Manifest:
    return placement_of(job["spec"]["template"]["spec"])


async def switched(world: World) -> Manifest:
    """Serve with an engine on node a, then ask for another model; returns the Job that downloads it."""
    await finish_downloads(world)
    world.pods_are_ready()
    place_engine(world, "a")
    await world.settle()
    world.ask(source="hf://Qwen/Qwen3-0.6B", cache=CACHE)
    await world.settle()
    (job,) = download_jobs(world)
    return job


async def test_the_first_download_runs_where_engines_may_run_since_it_binds_the_claim_to_a_node(cached: World) -> None:
    (job,) = download_jobs(cached)
    await finish_downloads(cached)
    engine = cached.live(ENGINES)["spec"]["template"]["spec"]
    assert own_placement(job) == placement_of(engine) != {}


async def test_a_download_beside_an_engine_runs_on_its_node_and_stays_there_while_it_runs(cached: World) -> None:
    job = await switched(cached)
    assert own_placement(job) == {"affinity": only_node("a")}
    show_pod(cached, job, ready=True)
    place_engine(cached, "b")
    assert not [write for write in await cached.settle() if "Job" in str(write)]
    assert download_jobs(cached)[0]["metadata"]["name"] == job["metadata"]["name"]


async def test_a_download_that_waits_for_its_node_follows_the_engine_to_another_one(cached: World) -> None:
    job = await switched(cached)
    show_pod(cached, job, ready=False)
    place_engine(cached, "b")
    await cached.settle()
    (moved,) = download_jobs(cached)
    assert own_placement(moved) == {"affinity": only_node("b")}
    assert moved["metadata"]["name"] != job["metadata"]["name"]
    assert moved["metadata"]["annotations"][ATTEMPT_ANNOTATION] == "1"


@pytest.mark.parametrize("modes", [("ReadWriteOnce",), ("ReadWriteMany",)])
async def test_a_download_that_runs_stays_where_it_is_whatever_is_known_of_its_claim_later(
    world: World, modes: tuple[str, ...]
) -> None:
    look, others = ClaimLookup(KEY.namespace, "models"), {"ReadWriteOnce", "ReadWriteMany"} - {*modes}
    world.cache.put_lookup(look, ClaimView(modes))
    world.ask(cache={"claimName": "models"})
    await world.settle()
    (job,) = download_jobs(world)
    assert (own_placement(job) != ON_LINUX) == (modes == ("ReadWriteOnce",))
    show_pod(world, job, ready=True)
    for later in (Unavailable("denied"), ClaimView((*others,))):
        world.cache.put_lookup(look, later)
        await world.reconcile()
        await world.settle()
        assert [one["metadata"]["name"] for one in download_jobs(world)] == [job["metadata"]["name"]]


async def test_a_claim_of_the_users_is_looked_up_before_a_job_mounts_it(world: World) -> None:
    world.ask(cache={"claimName": "models"})
    await world.settle()
    assert not download_jobs(world)
    assert world.conditions()["Reconciling"] == ("True", "DownloadingModel")
    world.cache.put_lookup(ClaimLookup(KEY.namespace, "models"), ClaimView(("ReadWriteMany",)))
    await world.reconcile()
    await world.settle()
    (job,) = download_jobs(world)
    assert own_placement(job) == ON_LINUX
