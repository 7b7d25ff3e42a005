"""A model in a bucket of a real S3 server, on a real node: downloaded to a claim, and served by real vLLM."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.faults import egress_closed, kill_container
from e2e.helpers.s3_server import BUCKET, KEY, REGION, SECRET, S3Server, s3_server
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.model.tiny_llama import model_folder
from e2e.test_cache import link, outside

NAME, CLAIM, PATH = "from-bucket", "bucket-models", "org/tiny"
FOLDER = "s3--models--org--tiny"
SECONDS = 300
LARGE_BYTES = 1024 * 2**20
"""A file that vLLM does not read, so that the Job's pod can be killed in the middle of the download."""

pytestmark = pytest.mark.full  # starts of an engine; e2e/test_bucket.py and tests/pipeline cover the decisions


@pytest.fixture
def claim(cluster: LocalCluster) -> Iterator[Path]:
    """An empty claim on the node's disk."""
    folder = cluster.volumes / CLAIM
    folder.mkdir()
    with claim_of(cluster, CLAIM, folder, access="ReadWriteMany"):
        yield folder
    shutil.rmtree(folder)


@pytest.fixture
def server(cluster: LocalCluster, tmp_path: Path) -> Iterator[S3Server]:
    """An S3 server that pods reach and the policy allows, with the tiny model, and a Secret with its key."""
    with s3_server(tmp_path, host=outside(cluster)) as server:
        for path in model_folder().iterdir():
            if path.is_file():
                server.put(f"{PATH}/{path.name}", path.read_bytes())
        keys = (f"--from-literal=AWS_ACCESS_KEY_ID={KEY}", f"--from-literal=AWS_SECRET_ACCESS_KEY={SECRET}")
        cluster.kubectl("create", "secret", "generic", "store", *keys)
        stack.install_operator(cluster, {"settings.policy.s3Endpoints.allowed[0]": f"http://{server.address}"})
        yield server
        stack.install_operator(cluster)
        cluster.kubectl("delete", "secret", "store")


@pytest.fixture
def served(cluster: LocalCluster, claim: Path, server: S3Server) -> Iterator[Served]:  # noqa: ARG001 - which outlive it
    """The name of the resource, which is deleted before its claim."""
    served = Served(cluster, NAME)
    yield served
    served.kubectl("delete", f"infd/{NAME}", "--wait=true", "--ignore-not-found")
    served.await_gone()


def resource(server: S3Server, **model: object) -> str:
    """The sample, with the model of the bucket."""
    sample = yaml.safe_load(stack.SAMPLE.read_text())
    sample["metadata"]["name"] = NAME
    store = {"endpoint": f"http://{server.address}", "region": REGION, "credentialsSecretRef": {"name": "store"}}
    sample["spec"]["model"] = {"source": f"s3://{BUCKET}/{PATH}", "s3": store, **model}
    sample["spec"] |= {"cache": {"claimName": CLAIM}, "router": {"replicas": 1}}
    return yaml.safe_dump(sample)


def stored(claim: Path) -> int:
    """Bytes of the largest file that is not complete."""
    return max((one.stat().st_size for one in (claim / "hub" / FOLDER / "blobs").glob("*.incomplete")), default=0)


def await_stalled(served: Served) -> tuple[str, str]:
    """Reason and message of the condition Stalled, once it is True."""

    def found() -> tuple[str, str] | None:
        stalled = stack.conditions(served.cluster, served.name).get("Stalled", {})
        return (stalled["reason"], stalled["message"]) if stalled.get("status") == "True" else None

    said = eventually(found, seconds=SECONDS, what=lambda: str(stack.conditions(served.cluster, served.name)))
    assert said is not None
    return said


def await_whole(served: Served, claim: Path) -> None:
    """Wait until the model is on the claim, and served."""

    def stalled() -> bool:
        return stack.conditions(served.cluster, NAME).get("Stalled", {}).get("status") != "False"

    eventually(lambda: list((claim / "complete").glob("*.json")), seconds=SECONDS, what="the record of a download")
    eventually(lambda: not stalled(), seconds=SECONDS, what=lambda: str(stack.conditions(served.cluster, NAME)))
    stack.wait_ready(served.cluster, NAME)


def loaders(served: Served) -> list[str]:
    """The pods of downloads that run."""
    selector = f"inference-operator.dev/name={NAME},app.kubernetes.io/component=download"
    listed = ("pods", f"--selector={selector}", "--field-selector=status.phase=Running", "--output=json")
    return [one["metadata"]["name"] for one in json.loads(served.kubectl("get", *listed))["items"]]


def test_a_model_in_a_bucket_is_downloaded_through_a_kill_and_served_with_egress_closed(
    served: Served, claim: Path, server: S3Server
) -> None:
    server.put(f"{PATH}/notes.dat", os.urandom(LARGE_BYTES))
    served.kubectl("apply", "--filename=-", input=resource(server))
    eventually(lambda: stored(claim) > 0, seconds=SECONDS, what="a part of the file")
    before = stored(claim)
    (pod,) = loaders(served)
    kill_container(served.cluster, pod)
    assert "SIGKILL" in await_stalled(served)[1]
    assert stored(claim) >= before
    assert not list((claim / "complete").glob("*.json"))
    await_whole(served, claim)
    (record,) = (claim / "complete").glob("*.json")
    (engine,) = json.loads(served.kubectl("get", f"deployment/{NAME}-engine", "--output=json"))["spec"]["template"][
        "spec"
    ]["containers"]
    commit = record.stem.partition("@")[2]
    assert f"/model-cache/{FOLDER}/snapshots/{commit}" in engine["args"]
    with egress_closed(link(served.cluster).device):
        served.scale(2)
    assert len(served.complete(max_tokens=8).split()) == 8


def test_a_refused_key_is_said_and_the_right_one_is_taken(served: Served, claim: Path, server: S3Server) -> None:
    wrong = ("--from-literal=AWS_ACCESS_KEY_ID=nobody", "--from-literal=AWS_SECRET_ACCESS_KEY=wrong")
    served.kubectl("create", "secret", "generic", "wrong-store", *wrong)
    try:
        asked = yaml.safe_load(resource(server))
        asked["spec"]["model"]["s3"]["credentialsSecretRef"]["name"] = "wrong-store"
        served.kubectl("apply", "--filename=-", input=yaml.safe_dump(asked))
        reason, message = await_stalled(served)
        assert reason == "ModelGated"
        assert "Check the Secret in `spec.model.s3.credentialsSecretRef`" in message
        served.kubectl("apply", "--filename=-", input=resource(server))
        await_whole(served, claim)
    finally:
        served.kubectl("delete", "secret", "wrong-store")
