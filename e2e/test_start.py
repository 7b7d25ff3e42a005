"""A start that takes its time: an image that is long in coming, and a model that is long in coming from a hub."""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from e2e import stack
from e2e.cluster.handle import LocalCluster
from e2e.cluster.network import Subnets
from e2e.cluster.state import layout, read_record
from e2e.model.tiny_llama import model_folder
from e2e.served import Served
from e2e.sources import Sources
from e2e.waiting import eventually
from inference_operator.diagnosis.startup_progress import PHRASES
from inference_operator.engines.base import Phase
from inference_operator.views.pod_startup import StartupStage

REPOSITORY = "otters/tiny-llama"
TOLD_SECONDS = 120
"""An engine on a busy machine takes most of a minute until it asks for its weights."""


@pytest.fixture
def sources(cluster: LocalCluster) -> Iterator[Sources]:
    """A registry and a hub, which the node reaches by the host's address and without TLS."""
    record = read_record(cluster.name)
    assert record is not None
    found = Sources(str(Subnets(record.slot).outside), REPOSITORY, model_folder())
    trusted = layout(cluster.name).registries / found.authority
    trusted.mkdir(parents=True)
    (trusted / "hosts.toml").write_text(f'server = "http://{found.authority}"\n')
    with found.serving():
        yield found
    shutil.rmtree(trusted)


def test_a_slow_image_pull_and_a_slow_download_are_reported_until_they_end(
    cluster: LocalCluster, sources: Sources
) -> None:
    """Both at once: a pull and a download cost the machine nothing while they are held back.

    On a node of Kubernetes 1.36, whose pods' status tells of a pull; before that only Events do
    (tests/diagnosis/test_startup_progress.py).
    """
    pulls, loads = Served(cluster, "long-pull"), Served(cluster, "long-download")
    image = f"oci://{sources.authority}/tiny-llama:1"
    hub = {"name": "HF_ENDPOINT", "value": f"http://{sources.authority}"}
    with asked(pulls, image), asked(loads, f"hf://{REPOSITORY}", hub), ThreadPoolExecutor() as beside:
        told: dict[str, list[str]] = {one.name: [] for one in (pulls, loads)}
        ready = [beside.submit(stack.wait_ready, cluster, name, tell=said.append) for name, said in told.items()]
        try:
            until_told(told[pulls.name], PHRASES[StartupStage.IMAGES], ready[0])
            sources.held["registry"].set()
            until_told(told[loads.name], PHRASES[Phase.DOWNLOADING], ready[1])
        finally:
            sources.let_go()
        for one in ready:
            one.result()
        assert pulls.complete() == loads.complete()


def until_told(told: list[str], words: str, ready: Future[None]) -> None:
    eventually(
        lambda: ready.done() or any(words in message for message in told),
        seconds=TOLD_SECONDS,
        what=lambda: f"`{words}` is told: {told}",
    )
    if ready.done():
        ready.result()  # says why it failed
        raise AssertionError(f"`{words}` was never told: {told}")


@contextmanager
def asked(served: Served, source: str, *environment: dict[str, Any]) -> Iterator[None]:
    """The sample for CPUs, of another model, for as long as it is needed."""
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = served.name
    resource["spec"]["model"]["source"] = source
    resource["spec"]["engine"]["env"] += environment
    resource["spec"]["router"] = {"replicas": 1}
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        yield
    finally:
        served.kubectl("delete", f"infd/{served.name}", "--wait=true")
        served.await_gone()
