"""Faults while a model is downloaded to a claim: each is told, and no engine starts before the model is whole."""

import hashlib
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.deploy import stack
from e2e.helpers.container_processes import node_process
from e2e.helpers.faults import kill_container
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from e2e.test_cache import WEIGHTS, hub_of, outside, resource
from inference_operator.objects.names import COMPONENT_LABEL, DOWNLOAD, NAME_LABEL
from tests.testing.hub import COMMIT, REPOSITORY, Answer, Hub, serving

KILLS = 5
WRITTEN = 10 * 2**20
"""The hub's client writes parts of this size (huggingface_hub 2.4, DOWNLOAD_CHUNK_SIZE)."""
LARGE, LARGE_BYTES = "large.dat", (2 * KILLS + 1) * WRITTEN
"""A file of the repository that engines do not read."""
SMALL_DISK, LARGE_DISK = "64m", "1g"
AWAY_SECONDS = 120
"""How long the mirror is away."""
SOON = 300.0
"""Limit in seconds for steps that take seconds on an idle machine."""
NEXT_ATTEMPT = 1500.0
"""Limit in seconds for an attempt after several that failed: they come ten minutes apart at most."""

pytestmark = pytest.mark.full  # each fault takes minutes; tests/model_files and tests/controller cover the decisions


@contextmanager
def served_from(cluster: LocalCluster, name: str, hub: Hub, folder: Path) -> Iterator[Served]:
    """A resource whose model comes from the hub to a claim in this folder."""
    served = Served(cluster, name)
    with claim_of(cluster, name, folder, access="ReadWriteMany"):
        served.kubectl("apply", "--filename=-", input=resource(name, hub.endpoint, {"claimName": name}))
        try:
            yield served
        finally:
            served.kubectl("delete", f"infd/{name}", "--wait=true", "--ignore-not-found")
            served.await_gone()


def made(cluster: LocalCluster, name: str) -> Path:
    """An empty folder on the node's disk."""
    folder = cluster.volumes / name
    folder.mkdir()
    return folder


def large_hub() -> Hub:
    """The tiny model, with a large file beside it."""
    hub = hub_of(REPOSITORY)
    block = hashlib.sha256(LARGE.encode()).digest()
    hub.large[LARGE] = b"".join(block + number.to_bytes(4) for number in range(LARGE_BYTES // 36 + 1))[:LARGE_BYTES]
    return hub


def blobs(folder: Path) -> Path:
    """Where the files' contents are on the claim."""
    return folder / "hub" / f"models--{REPOSITORY.replace('/', '--')}" / "blobs"


def sha256(content: bytes) -> str:
    """In hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def await_part(folder: Path, hub: Hub, size: int) -> None:
    """Wait until so many bytes of the large file are on the claim."""
    part = blobs(folder) / f"{sha256(hub.large[LARGE])}.incomplete"
    eventually(lambda: part.is_file() and part.stat().st_size >= size, seconds=SOON, what=f"{size} bytes of {LARGE}")


def await_stalled(served: Served, reason: str) -> str:
    """Wait until the resource is stalled for this reason, without an engine; returns the message."""

    def message() -> str:
        found = stack.conditions(served.cluster, served.name).get("Stalled", {})
        return str(found["message"]) if (found.get("status"), found.get("reason")) == ("True", reason) else ""

    said = eventually(
        message, seconds=SOON, what=lambda: f"{reason}: {stack.conditions(served.cluster, served.name).get('Stalled')}"
    )
    assert not served.pods("engine"), "engines wait for the whole model"
    return said


def await_whole(served: Served, folder: Path, hub: Hub) -> None:
    """Wait until the model serves, and compare what is on the claim with the hub."""
    record = folder / f"complete/org--model@{COMMIT}.json"
    eventually(
        record.is_file, seconds=NEXT_ATTEMPT, what=lambda: f"complete: {stack.conditions(served.cluster, served.name)}"
    )
    for content in hub.large.values():
        assert sha256((blobs(folder) / sha256(content)).read_bytes()) == sha256(content)
    eventually(
        lambda: stack.conditions(served.cluster, served.name).get("Stalled", {}).get("status") == "False",
        seconds=SOON,
        what="not stalled any more",
    )
    stack.wait_ready(served.cluster, served.name)
    assert len(served.complete(max_tokens=8).split()) == 8


def test_a_download_that_is_killed_five_times_continues_each_time_and_is_whole(cluster: LocalCluster, say: Say) -> None:
    folder, hub = made(cluster, "killed"), large_hub()
    hub.silent_after = 2 * WRITTEN + 1
    with serving(hub, address=outside(cluster)), served_from(cluster, "killed", hub, folder) as served:
        for kill in range(1, KILLS + 1):
            await_part(folder, hub, 2 * kill * WRITTEN)
            (pod,) = served.pods(DOWNLOAD)
            kill_container(cluster, pod)
            said = await_stalled(served, "DownloadFailed")
            hub.silent_after *= kill < KILLS
            try_again(served)
        await_whole(served, folder, hub)
    offsets = [offset for offset in hub.offsets if offset]
    say(f"killed {KILLS} times, continued at {offsets} of {LARGE_BYTES} bytes; {said}")
    assert offsets == sorted(offsets), "no part is downloaded twice"
    assert len(set(offsets)) >= KILLS


def test_a_full_disk_is_told_and_the_download_goes_on_once_there_is_room(cluster: LocalCluster, say: Say) -> None:
    folder, hub = made(cluster, "full"), large_hub()
    node = node_process(cluster, stack.leader(cluster), stack.SYSTEM)
    inside = ("nsenter", f"--target={node}", "--mount")
    # The mount is inside the node, and ends with it.
    subprocess.run([*inside, "mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", folder], check=True)
    with serving(hub, address=outside(cluster)), served_from(cluster, "full", hub, folder) as served:
        say(await_stalled(served, "DiskFull"))
        subprocess.run([*inside, "mount", "-o", f"remount,size={LARGE_DISK}", folder], check=True)
        await_whole(served, Path(f"/proc/{node}/root") / folder.relative_to("/"), hub)


def test_a_file_with_another_hash_is_told_deleted_and_downloaded_again(cluster: LocalCluster, say: Say) -> None:
    folder, hub = made(cluster, "damaged"), hub_of(REPOSITORY)
    whole = hub.large[WEIGHTS]
    hub.damaged[WEIGHTS] = bytes([whole[0] ^ 1]) + whole[1:]
    with serving(hub, address=outside(cluster)), served_from(cluster, "damaged", hub, folder) as served:
        said = await_stalled(served, "DownloadFailed")
        assert WEIGHTS in said
        assert "SHA-256" in said
        assert not (blobs(folder) / sha256(whole)).exists()
        hub.damaged.clear()
        await_whole(served, folder, hub)
    say(said)


def test_a_model_that_is_gone_or_gated_after_its_inspection_is_told_and_tried_again(
    cluster: LocalCluster, say: Say
) -> None:
    folder, hub = made(cluster, "changing"), large_hub()
    hub.silent_after = 2 * WRITTEN + 1
    faults: list[tuple[str, str, dict[str, Answer]]] = [
        ("ModelGated", "hf_another", {}),
        ("ModelNotFound", "", {"model": lambda request: request.refuse(401, "RepoNotFound")}),
    ]
    with serving(hub, address=outside(cluster)), served_from(cluster, "changing", hub, folder) as served:
        eventually(lambda: served.pods(DOWNLOAD), seconds=SOON, what="a Job's pod")
        for reason, hub.token, hub.odd in faults:
            try_again(served)
            say(await_stalled(served, reason))
        hub.token, hub.odd, hub.silent_after = "", {}, 0
        try_again(served)
        await_whole(served, folder, hub)


def test_a_mirror_that_is_away_for_two_minutes_is_told_and_the_download_goes_on(
    cluster: LocalCluster, say: Say
) -> None:
    folder, hub = made(cluster, "away"), large_hub()
    hub.silent_after = 2 * WRITTEN + 1
    address = outside(cluster)
    with ExitStack() as until_the_end:
        with serving(hub, address=address):
            ports = port_of(hub.endpoint), port_of(hub.storage)
            served = until_the_end.enter_context(served_from(cluster, "away", hub, folder))
            await_part(folder, hub, 2 * WRITTEN)
        gone = time.monotonic()
        said = await_stalled(served, "HubUnreachable")
        time.sleep(max(0.0, gone + AWAY_SECONDS - time.monotonic()))
        assert not served.pods("engine")
        hub.silent_after = 0
        with serving(hub, address=address, ports=ports):
            await_whole(served, folder, hub)
        say(f"the mirror was away for {AWAY_SECONDS} s; continued at {hub.offsets} bytes; {said}")
        assert max(hub.offsets) >= 2 * WRITTEN


def port_of(url: str) -> int:
    """The port of a URL that ends with it."""
    return int(url.rpartition(":")[2])


def try_again(served: Served) -> None:
    """Delete the Jobs of the download: who does so does not wait for the next attempt, and a new one begins at once."""
    selector = f"--selector={NAME_LABEL}={served.name},{COMPONENT_LABEL}={DOWNLOAD}"
    served.kubectl("delete", "jobs", selector, "--cascade=foreground", "--wait=true")
