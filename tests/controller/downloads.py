"""Downloads to a claim on the in-memory cluster: their Jobs, and how they end."""

from inference_operator.jobs.download_result import Downloaded, downloaded_text
from inference_operator.manifest import JOB, Manifest, Ref
from inference_operator.objects.names import DOWNLOAD, labels
from tests.controller.world import World
from tests.testing.builders import KEY
from tests.testing.inspected import over

DONE = downloaded_text(Downloaded("1234", 146 * 10**9, 40))


def download_jobs(world: World) -> list[Manifest]:
    """The Jobs of downloads, the newest last."""
    found = [one for ref, one in world.cluster.live().items() if ref.kind == JOB and "-cache-" in ref.name]
    return sorted(found, key=lambda job: job["metadata"]["name"])


def show_pod(world: World, job: Manifest, *, ready: bool) -> str:
    """Show a pod of a Job that has a node, and that runs or still waits there for its volume; returns its name."""
    meta = {"name": f"{job['metadata']['name']}-x", "namespace": KEY.namespace, "labels": labels(KEY.name, DOWNLOAD)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "a"}}
    world.cluster.apply_as("kubelet", pod)
    state = {"running": {"startedAt": world.now.isoformat()}} if ready else {"waiting": {"reason": "ContainerCreating"}}
    shown = {"name": DOWNLOAD, "state": state, "ready": ready, "started": ready, "restartCount": 0}
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": str(ready)}]
    phase = "Running" if ready else "Pending"
    world.cluster.set_status(Ref.of(pod), {"phase": phase, "conditions": conditions, "containerStatuses": [shown]})
    return str(meta["name"])


def end(world: World, message: str, *, kind: str) -> None:
    """End the newest Job with this termination message of its pod."""
    job = download_jobs(world)[-1]
    name = f"{job['metadata']['name']}-x"
    terminated = {"exitCode": 0 if kind == "Complete" else 1, "message": message}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": KEY.namespace, "labels": labels(KEY.name, DOWNLOAD)},
        "spec": {},
    }
    world.cluster.apply_as("kubelet", pod)
    world.cluster.set_status(
        Ref.of(pod),
        {
            "phase": "Succeeded" if kind == "Complete" else "Failed",
            "containerStatuses": [{"name": DOWNLOAD, "state": {"terminated": terminated}}],
        },
    )
    world.cluster.set_status(Ref.of(job), over(kind, at=world.now))


async def finish_downloads(world: World) -> None:
    """End the download, if one runs, and let the operator act until nothing changes."""
    if download_jobs(world):
        end(world, DONE, kind="Complete")
        for _ in range(2):  # the record, then the deletion of the Job
            await world.reconcile()
            await world.settle()
