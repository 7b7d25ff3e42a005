"""A real vLLM with a vision model, asked for images at addresses inside the cluster: only allowed hosts are asked."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.media_server import IMAGE, REDIRECT, MediaServer, media_server, named, redirecting, tricks
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.model.tiny_models import tiny_models
from e2e.test_cache import outside
from e2e.test_models import picture, repository
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from tests.testing.hub import serving

VISION = "vision"
PICTURE = picture((255, 0, 0))
CLIENT_ERROR = 4
"""First digit of a status."""

pytestmark = pytest.mark.full  # two starts of an engine; e2e/test_media_client.py asks vLLM's client alone


@dataclass(frozen=True, slots=True)
class Media:
    """A served vision model, and a server of images with two names."""

    served: Served
    server: MediaServer
    allowed: str
    other: str

    def status_of(self, url: str) -> int:
        """The status of an answer about the image of a URL."""
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": " amber"}]
        body = {"model": self.served.name, "messages": [{"role": "user", "content": parts}], "max_tokens": 2}
        status, text = self.served.post("/v1/chat/completions", body)
        assert "root:" not in text
        return status

    @property
    def closed(self) -> list[str]:
        """URLs that are fetched under no setting of the test."""
        return [*tricks(self.server, self.allowed, self.other), f"http://localhost:8000{IMAGE}"]


@pytest.fixture(scope="module")
def media(cluster: LocalCluster) -> Iterator[Media]:
    hub = repository(VISION, tiny_models() / VISION)
    address = outside(cluster)
    with (
        serving(hub, address=address) as mirror,
        media_server(address, PICTURE) as server,
        named(cluster, server, "pictures", "elsewhere") as (allowed, other),
    ):
        served = Served(cluster, VISION)
        engine = {"args": ["--enforce-eager"], "env": [{"name": "HF_ENDPOINT", "value": mirror.endpoint}]}
        resource = {
            "apiVersion": "inference-operator.dev/v1alpha1",
            "kind": "InferenceDeployment",
            "metadata": {"name": served.name},
            "spec": {
                "model": {"source": f"hf://{hub.repository}"},
                "hardware": {"device": "CPU"},
                "engine": engine,
                "router": {"replicas": 1},
            },
        }
        served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
        try:
            stack.wait_ready(cluster, served.name)
            yield Media(served, server, allowed, other)
        finally:
            served.kubectl("delete", f"infd/{served.name}", "--wait=true")
            served.await_gone()


def test_a_vision_model_fetches_nothing_by_default_and_allowed_hosts_only_after_an_edit(media: Media) -> None:
    server, served = media.server, media.served
    refused(media, *media.closed, server.url(media.allowed))
    assert media.status_of("file:///etc/passwd") >= HTTPStatus.BAD_REQUEST  # vLLM answers 500
    assert server.asked == []
    assert media.status_of(PICTURE) == HTTPStatus.OK

    sized = plan(served)
    patch = {"spec": {"engine": {"multimodal": {"allowedDomains": [media.allowed]}}}}
    served.kubectl("patch", f"infd/{served.name}", "--type=merge", f"--patch={json.dumps(patch)}")
    stack.wait_ready(served.cluster, served.name)
    assert sized
    assert plan(served) == sized, "a host that is allowed changes no size"

    assert media.status_of(server.url(media.allowed)) == HTTPStatus.OK
    assert server.asked == [f"{media.allowed}{IMAGE}"]
    refused(media, *media.closed)
    assert server.asked == [f"{media.allowed}{IMAGE}"]
    assert media.status_of(PICTURE) == HTTPStatus.OK

    server.asked.clear()
    assert media.status_of(redirecting(server, media.allowed, media.other)) >= HTTPStatus.BAD_REQUEST
    assert server.asked
    assert all(asked.startswith(f"{media.allowed}{REDIRECT}?") for asked in server.asked)


def refused(media: Media, *urls: str) -> None:
    """Each URL is refused as an error of the client."""
    answers = {url: media.status_of(url) for url in urls}
    wrong = {url: status for url, status in answers.items() if status // 100 != CLIENT_ERROR}
    assert not wrong, f"{wrong} of {answers}"


def plan(served: Served) -> object:
    """What the operator has calculated."""
    pinned = PLAN_ANNOTATION.read(
        json.loads(served.kubectl("get", "deployment", f"{served.name}-engine", "--output=json"))
    )
    return pinned.plan if pinned else None
