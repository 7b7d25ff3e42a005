"""Two resources with one claim: one Job downloads the model, and all engines start from the claim without the hub."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.faults import egress_closed
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of, volume_for
from e2e.load import GENTLE_PAUSE_SECONDS, Load
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import Subnets
from e2e.localkube.state import read_record
from e2e.localkube.waiting import eventually
from e2e.model.tiny_llama import model_folder
from e2e.runs.printed_figures import Say
from tests.testing.hub import COMMIT, REPOSITORY, Hub, serving

CLAIM = "shared-models"
WEIGHTS = "model.safetensors"
SECOND = "org/second"
SIZE = "12Gi"
"""For the tiny model and compiled kernels."""
REQUESTS, AT_MOST, BEFORE, AFTER = 2000, 200_000, 200, 300
"""Requests of the load in all, its limit, and those answered before and after the switch."""
SWITCH_SECONDS = 900
"""Limit of a switch on two cores that the load keeps busy."""

pytestmark = pytest.mark.full  # three starts of an engine; tests/controller/test_download.py covers the decisions


@pytest.fixture
def claim(cluster: LocalCluster) -> Iterator[Path]:
    """An empty claim on the node's disk."""
    folder = cluster.volumes / CLAIM
    folder.mkdir()
    with claim_of(cluster, CLAIM, folder, access="ReadWriteMany"):
        yield folder


def hub_of(repository: str) -> Hub:
    """A hub with the tiny model."""
    files = {path.name: path.read_bytes() for path in model_folder().iterdir() if path.is_file()}
    return Hub(repository=repository, large={WEIGHTS: files.pop(WEIGHTS)}, files=files)


def link(cluster: LocalCluster) -> Subnets:
    """How pods reach this machine."""
    record = read_record(cluster.name)
    assert record is not None
    return record.subnets[0]


def outside(cluster: LocalCluster) -> str:
    """An address of this machine that pods can reach."""
    return str(link(cluster).outside)


def resource(name: str, endpoint: str, cache: dict[str, str]) -> str:
    """The sample, with a model of the hub on a claim."""
    sample = yaml.safe_load(stack.SAMPLE.read_text())
    sample["metadata"]["name"] = name
    sample["spec"]["model"]["source"] = f"hf://{REPOSITORY}"
    sample["spec"]["engine"]["env"].append({"name": "HF_ENDPOINT", "value": endpoint})
    return yaml.safe_dump({**sample, "spec": {**sample["spec"], "cache": cache, "router": {"replicas": 1}}})


def test_two_resources_share_one_download_and_their_engines_start_without_the_hub(
    cluster: LocalCluster, claim: Path
) -> None:
    first, second = Served(cluster, "cached-a"), Served(cluster, "cached-b")
    try:
        with serving(hub_of(REPOSITORY), address=outside(cluster)) as hub:
            for served in (first, second):
                served.kubectl("apply", "--filename=-", input=resource(served.name, hub.endpoint, {"claimName": CLAIM}))
            for served in (first, second):
                stack.wait_ready(cluster, served.name)
        assert hub.offsets == [0]
        assert (claim / f"complete/org--model@{COMMIT}.json").is_file()
        with egress_closed(link(cluster).device):
            first.scale(2)
        assert len(first.complete(max_tokens=8).split()) == len(second.complete(max_tokens=8).split()) == 8
        assert hub.offsets == [0]
    finally:
        for served in (first, second):
            served.kubectl("delete", f"infd/{served.name}", "--wait=true", "--ignore-not-found")
            served.await_gone()


def test_a_switch_of_the_model_is_downloaded_first_and_loses_no_request(cluster: LocalCluster, say: Say) -> None:
    served, folder, second = Served(cluster, "switched"), cluster.volumes / "switched", hub_of(SECOND)
    folder.mkdir()
    with (
        volume_for(cluster, "switched-cache", folder, size=SIZE),
        serving(hub_of(REPOSITORY), second, address=outside(cluster)) as hub,
    ):
        try:
            served.kubectl("apply", "--filename=-", input=resource("switched", hub.endpoint, {"size": SIZE}))
            stack.wait_ready(cluster, served.name)
            load = Load(served.address, served.name)
            load.learn()
            old = set(served.pods("engine"))
            pause = GENTLE_PAUSE_SECONDS
            limits = {"at_least": REQUESTS, "at_most": AT_MOST}
            with load.phase("switch of the model", **limits, seconds=SWITCH_SECONDS, pause=pause) as phase:
                phase.await_answers(BEFORE)
                phase.mark()
                change = {"spec": {"model": {"source": f"hf://{SECOND}"}}}
                served.kubectl("patch", "infd", served.name, "--type=merge", f"--patch={json.dumps(change)}")
                eventually(lambda: bool(second.offsets), seconds=SWITCH_SECONDS, what="a download of the second model")
                assert set(served.pods("engine")) == old, "engines are replaced after the download"
                eventually(
                    lambda: not old & set(served.pods("engine")),
                    seconds=SWITCH_SECONDS,
                    what=lambda: f"a new engine: {served.pods('engine')}",
                )
                stack.wait_ready(cluster, served.name)
                phase.await_answers(AFTER)
            say(str(phase.result))
            assert phase.result.ok == phase.result.sent >= REQUESTS, phase.result.losses()[:4]
            assert second.offsets == [0]
        finally:
            served.kubectl("delete", f"infd/{served.name}", "--wait=true", "--ignore-not-found")
            served.await_gone()
        mine = "--selector=inference-operator.dev/name=switched"
        eventually(
            lambda: not served.kubectl("get", "persistentvolumeclaims", "--output=name", mine),
            seconds=SWITCH_SECONDS,
            what="the claim goes with its resource",
        )
