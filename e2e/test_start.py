"""The status during a slow start: a slow pull of an image, and a slow download of a model from a hub."""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.delayed_downloads import Sources
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.state import layout, read_record
from e2e.localkube.waiting import eventually
from e2e.model.tiny_llama import model_folder
from inference_operator.diagnosis.startup_progress import PHRASES
from inference_operator.engines.start_log import Phase
from inference_operator.views.pod_startup import StartupStage

REPOSITORY = "otters/tiny-llama"
REPORTED_SECONDS = 300
"""An engine on a busy machine takes most of a minute until it requests its weights."""


@pytest.fixture
def sources(cluster: LocalCluster) -> Iterator[Sources]:
    """A registry and a hub, which the node reaches by the host's address and without TLS."""
    record = read_record(cluster.name)
    assert record is not None
    sources = Sources(str(record.subnets[0].outside), REPOSITORY, model_folder())
    trusted = layout(cluster.name).registries / sources.authority
    trusted.mkdir(parents=True)
    (trusted / "hosts.toml").write_text(f'server = "http://{sources.authority}"\n')
    with sources.serving():
        yield sources
    shutil.rmtree(trusted)


@pytest.mark.full  # tests/status and tests/controller/test_lookups.py cover the decisions
def test_a_slow_image_pull_and_a_slow_download_are_reported_until_they_end(
    cluster: LocalCluster, sources: Sources
) -> None:
    """Both run at once, since a pull and a download that are held back use no CPU.

    The node runs Kubernetes 1.36, where the pod's status shows a pull. Earlier releases show it in Events only
    (tests/diagnosis/test_startup_progress.py).
    """
    pulls, loads = Served(cluster, "long-pull"), Served(cluster, "long-download")
    image = f"oci://{sources.authority}/tiny-llama:1"
    hub = {"name": "HF_ENDPOINT", "value": f"http://{sources.authority}"}
    with applied(pulls, image), applied(loads, f"hf://{REPOSITORY}", hub), ThreadPoolExecutor() as pool:
        messages: dict[str, list[str]] = {served.name: [] for served in (pulls, loads)}
        ready = [pool.submit(stack.wait_ready, cluster, name, tell=seen.append) for name, seen in messages.items()]
        try:
            await_message(messages[pulls.name], PHRASES[StartupStage.IMAGES], ready[0])
            sources.held["registry"].set()
            await_message(messages[loads.name], PHRASES[Phase.DOWNLOADING], ready[1])
        finally:
            sources.let_go()
        for future in ready:
            future.result()
        assert pulls.complete() == loads.complete()


def await_message(messages: list[str], words: str, ready: Future[None]) -> None:
    eventually(
        lambda: ready.done() or any(words in message for message in messages),
        seconds=REPORTED_SECONDS,
        what=lambda: f"a message with `{words}`: {messages}",
    )
    if ready.done():
        ready.result()  # raises the failure, if there was one
        raise AssertionError(f"no message with `{words}`: {messages}")


@contextmanager
def applied(served: Served, source: str, *environment: dict[str, Any]) -> Iterator[None]:
    """The sample for CPUs with another model; deleted at the end of the block."""
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
