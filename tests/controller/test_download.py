"""A model that is downloaded to a claim: the writes until engines start, and the retries."""

from datetime import timedelta

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.jobs.attempts import FIRST_WAIT
from inference_operator.jobs.inspection_result import result_text
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import CONFIG_MAP, POD, Ref
from inference_operator.models.config import NotUnderstood
from inference_operator.objects.names import DOWNLOAD
from inference_operator.views.lookups import ClaimLookup, ClaimView, LogLookup, LogText
from tests.controller.downloads import DONE, download_jobs, end, finish_downloads, show_pod
from tests.controller.test_healing import add_pod
from tests.controller.world import World
from tests.planning.test_healing import crashed
from tests.testing.builders import ENGINES, KEY, ready_pod

CACHE = {"claimName": "models"}
CLAIM = (ClaimLookup(KEY.namespace, "models"), ClaimView(("ReadWriteMany",)))
BROKEN = "RuntimeError: a previous compilation failed, leading to a corrupted compilation artifact."


def failed(cause: Cause) -> str:
    return result_text(Failure(cause, NotUnderstood("hf://a/b", "is a problem.", "Solve it.")))


@pytest.fixture
async def downloading(world: World) -> World:
    world.cache.put_lookup(*CLAIM)
    world.ask(cache=CACHE)
    await world.settle()
    return world


async def test_engines_start_once_the_model_is_complete_on_the_claim(downloading: World) -> None:
    world = downloading
    assert ENGINES not in world.cluster.live()
    assert world.conditions()["Ready"] == ("False", "DownloadingModel")
    assert world.conditions()["Reconciling"] == ("True", "DownloadingModel")
    assert len(download_jobs(world)) == 1
    assert await world.settle() == []
    end(world, DONE, kind="Complete")
    await world.settle()
    await world.reconcile()
    await world.settle()
    assert download_jobs(world) == []
    (record,) = [ref for ref in world.cluster.live() if ref.kind == CONFIG_MAP and "-cache-" in ref.name]
    assert world.live(record)["data"]["claim"] == "models"
    container = world.live(ENGINES)["spec"]["template"]["spec"]["containers"][0]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert (env["HF_HUB_OFFLINE"], env["HF_HUB_CACHE"]) == ("1", "/model-cache")
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert mounts["/model-cache"]["readOnly"] is True
    assert mounts["/home/vllm/.cache"]["subPath"].startswith("compiled/")
    assert await world.settle() == []


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (Cause.GATED, "ModelGated"),
        (Cause.NOT_FOUND, "ModelNotFound"),
        (Cause.UNREACHABLE, "HubUnreachable"),
        (Cause.DISK_FULL, "DiskFull"),
        (Cause.DAMAGED, "DownloadFailed"),
    ],
)
async def test_a_failed_download_says_why_and_is_tried_again(downloading: World, cause: Cause, reason: str) -> None:
    world = downloading
    end(world, failed(cause), kind="Failed")
    await world.settle()
    assert world.conditions()["Stalled"] == ("True", reason)
    assert ENGINES not in world.cluster.live()
    assert len(download_jobs(world)) == 1
    world.now += FIRST_WAIT + timedelta(seconds=1)
    await world.settle()
    assert len(download_jobs(world)) == 2
    end(world, DONE, kind="Complete")
    await world.settle()
    assert ENGINES in world.cluster.live()
    assert world.conditions()["Stalled"][0] == "False"


async def test_a_download_that_ends_without_a_result_is_a_failed_download(downloading: World) -> None:
    end(downloading, "Killed", kind="Failed")
    await downloading.settle()
    assert downloading.conditions()["Stalled"] == ("True", "DownloadFailed")


async def test_engines_of_the_former_model_keep_running_while_the_next_one_is_downloaded(downloading: World) -> None:
    world = downloading
    end(world, DONE, kind="Complete")
    await world.settle()
    world.pods_are_ready()
    await world.settle()
    before = world.live(ENGINES)["spec"]["template"]
    world.ask(source="hf://Qwen/Qwen3-0.6B", cache=CACHE)
    await world.settle()
    assert world.live(ENGINES)["spec"]["template"] == before
    assert world.conditions()["Ready"][0] == "True"
    assert world.conditions()["Reconciling"] == ("True", "DownloadingModel")
    message = world.status().condition(ConditionType.RECONCILING).message  # type: ignore[union-attr]
    assert message.endswith("The running engines serve until the switch, which follows.")
    end(world, DONE, kind="Complete")
    await world.settle()
    assert world.live(ENGINES)["spec"]["template"] != before


async def test_the_former_model_scales_also_from_zero_while_the_next_one_is_downloaded_or_cannot_be(
    downloading: World,
) -> None:
    world = downloading
    end(world, DONE, kind="Complete")
    await world.settle()
    before = world.live(ENGINES)["spec"]["template"]
    for replicas, said in ((0, False), (3, True)):
        world.ask(source="hf://Qwen/Qwen3-0.6B", cache=CACHE, replicas=replicas)
        await world.settle()
        assert (world.live(ENGINES)["spec"]["replicas"], world.live(ENGINES)["spec"]["template"]) == (replicas, before)
        message = world.status().condition(ConditionType.RECONCILING).message  # type: ignore[union-attr]
        assert "engines serve" not in message, "none is ready"
        world.pods_are_ready()
        await world.settle()
        message = world.status().condition(ConditionType.RECONCILING).message  # type: ignore[union-attr]
        assert message.endswith("The running engines serve until the switch, which follows.") == said
    end(world, failed(Cause.NOT_FOUND), kind="Failed")
    await world.settle()
    assert world.conditions()["Stalled"] == ("True", "ModelNotFound")
    world.ask(source="hf://Qwen/Qwen3-0.6B", cache=CACHE, replicas=2)
    await world.settle()
    assert (world.live(ENGINES)["spec"]["replicas"], world.live(ENGINES)["spec"]["template"]) == (2, before)
    assert await world.settle() == []


async def test_an_attempt_that_downloads_ends_the_failure_of_the_one_before(downloading: World) -> None:
    world = downloading
    end(world, failed(Cause.UNREACHABLE), kind="Failed")
    await world.settle()
    assert world.conditions()["Stalled"] == ("True", "HubUnreachable")
    world.now += FIRST_WAIT + timedelta(seconds=1)
    await world.settle()
    assert world.conditions()["Stalled"] == ("True", "HubUnreachable"), "it has not downloaded anything yet"
    job = download_jobs(world)[-1]
    name = show_pod(world, job, ready=True)
    await world.settle()
    (pod,) = [one for one in world.cache.pods(KEY) if one.name == name]
    log = LogLookup(KEY.namespace, name, pod.uid, DOWNLOAD, run=0, previous=False, running=True)
    world.cache.put_lookup(log, LogText("Downloading 35 %, 5.1 of 15.3 GB, 2 min left\n"))
    await world.reconcile()
    await world.settle()
    assert world.conditions()["Stalled"][0] == "False"
    assert world.conditions()["Reconciling"] == ("True", "DownloadingModel")
    message = world.status().condition(ConditionType.RECONCILING).message  # type: ignore[union-attr]
    assert message.startswith(
        f"Job {job['metadata']['name']} downloads the model to the claim models. Downloading 35 %"
    )
    assert message.endswith("The attempt before failed: hf://a/b: is a problem.")


async def test_a_restart_of_the_operator_during_a_download_writes_nothing(downloading: World) -> None:
    await downloading.restart()
    assert await downloading.settle() == []


async def test_without_a_cache_the_objects_of_the_download_are_deleted(downloading: World) -> None:
    downloading.ask()
    await downloading.settle()
    assert download_jobs(downloading) == []
    assert ENGINES in downloading.cluster.live()


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"env": [{"name": "HF_HUB_CACHE", "value": "/x"}]}, "HF_HUB_CACHE"),
        ({"args": ["--download-dir=/x"]}, "--download-dir"),
    ],
)
async def test_what_would_lead_engines_away_from_the_claim_is_refused(
    world: World, engine: dict[str, object], words: str
) -> None:
    world.ask(cache=CACHE, engine=engine)
    await world.settle()
    assert world.conditions()["Stalled"] == ("True", "ManagedArgument")
    assert words in world.status().condition(ConditionType.STALLED).message  # type: ignore[union-attr]


async def test_a_cache_beside_a_model_in_a_volume_needs_adapters(world: World) -> None:
    world.ask(source="pvc://models/mine", cache=CACHE)
    await world.settle()
    assert world.conditions()["Stalled"] == ("True", "InvalidSpec")


async def test_broken_kernels_are_deleted_also_while_an_engine_of_the_former_template_serves(
    downloading: World,
) -> None:
    world = downloading
    await finish_downloads(world)
    add_pod(world, "former", ready_pod())
    world.pods_are_ready()
    await world.settle()
    world.ask(cache=CACHE, podTemplate={"annotations": {"renewed": "1"}}, rollout={"strategy": "Surge"})
    await world.settle()
    add_pod(world, "new", crashed(BROKEN))
    await world.settle()
    (job,) = download_jobs(world)
    assert "--empty-kernels" in job["spec"]["template"]["spec"]["containers"][0]["args"]


async def test_broken_kernels_are_deleted_by_a_job_once_and_then_engines_go_on(downloading: World) -> None:
    world = downloading
    await finish_downloads(world)
    add_pod(world, "first", crashed(BROKEN))
    await world.settle()
    assert world.conditions()["Reconciling"] == ("True", "DownloadingModel")
    message = world.status().condition(ConditionType.RECONCILING).message  # type: ignore[union-attr]
    assert "engines serve" not in message, "all end"
    (job,) = download_jobs(world)
    assert "--empty-kernels" in job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert ENGINES in world.cluster.live()
    end(world, DONE, kind="Complete")
    await world.settle()
    assert world.conditions()["Reconciling"] == ("True", "KernelsBroken")
    assert len(download_jobs(world)) == 1, "not deleted again before an engine has answered"
    world.cluster.set_status(Ref(POD, "default", "first"), ready_pod())
    await world.settle()
    assert download_jobs(world) == []
