"""`infd cache` on a real node: a model is downloaded before any resource exists, listed, and pruned."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import images
from e2e.helpers.infd_command import infd
from e2e.helpers.volume_claim import claim_of
from e2e.localkube.handle import LocalCluster
from e2e.test_cache import WEIGHTS, hub_of, outside
from tests.testing.hub import COMMIT, REPOSITORY, Hub, serving

CLAIM = "command-models"
NAMED = f"{REPOSITORY}@{COMMIT}"


@pytest.fixture
def claim(cluster: LocalCluster) -> Iterator[Path]:
    """An empty claim on the node's disk."""
    folder = cluster.volumes / CLAIM
    folder.mkdir()
    with claim_of(cluster, CLAIM, folder, access="ReadWriteMany"):
        yield folder


def cache(cluster: LocalCluster, *arguments: str) -> tuple[int, str, str]:
    """`infd cache`, as a user runs it."""
    return infd(cluster, "cache", *arguments, seconds=300)


def prune(cluster: LocalCluster, *arguments: str) -> dict[str, object]:
    image = f"--image={images.reference('operator')}"
    status, output, complaints = cache(cluster, "prune", f"--claim={CLAIM}", image, "--output=json", *arguments)
    assert status == 0, complaints
    found: dict[str, object] = json.loads(output)
    return found


def prefetch(cluster: LocalCluster, hub: Hub) -> tuple[int, str, str]:
    image, endpoint = f"--image={images.reference('operator')}", f"--env=HF_ENDPOINT={hub.endpoint}"
    return cache(cluster, "prefetch", f"hf://{REPOSITORY}", f"--claim={CLAIM}", image, endpoint)


def test_a_model_is_prefetched_listed_and_pruned_once_nothing_uses_it(cluster: LocalCluster, claim: Path) -> None:
    record, lock = claim / f"complete/org--model@{COMMIT}.json", claim / "complete/org--model.lock"
    with serving(hub_of(REPOSITORY), address=outside(cluster)) as hub:
        status, output, complaints = prefetch(cluster, hub)
        assert (status, hub.offsets) == (0, [0]), complaints
        assert COMMIT in output
        assert record.is_file()
        assert prefetch(cluster, hub)[0] == 0
        assert hub.offsets == [0], "the model was complete"
    listed = json.loads(cache(cluster, "list", "--output=json")[1])["items"]
    (row,) = [one for one in listed if one["claim"] == CLAIM]
    assert (row["model"], row["revision"], row["state"], row["usedBy"]) == (REPOSITORY, COMMIT, "complete", [])

    recent = prune(cluster)
    assert recent["freedBytes"] == 0, "a Job has just used it"
    os.utime(lock, (1000, 1000))
    weights = (claim / f"hub/models--org--model/snapshots/{COMMIT}" / WEIGHTS).resolve().stat().st_size
    said = prune(cluster, "--dry-run")
    assert record.is_file()
    os.utime(lock, (1000, 1000))
    done = prune(cluster)
    assert said["items"] == done["items"]
    assert int(str(done["freedBytes"])) > weights
    assert not list((claim / "hub").glob("models--*"))
    assert not record.exists()
    assert CLAIM not in cache(cluster, "list")[1]
