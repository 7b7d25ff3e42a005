"""The client with which vLLM fetches media, in the engine's image, with the arguments and variables of an engine."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.engines import vllm_options
from e2e.helpers.media_server import IMAGE, REDIRECT, MediaServer, media_server, redirecting, tricks
from e2e.test_models import picture
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings

ALLOWED, OTHER = "localhost", "127.0.0.1"
PICTURE = picture((255, 0, 0))
FILE = "file:///etc/hosts"
Domains = tuple[str, ...] | None
"""Hosts that an engine may ask; None: an engine without the operator's arguments."""
DOMAINS: tuple[tuple[str, ...], ...] = ((), (ALLOWED,))
WITHOUT_OPERATOR = {"args": ["m"], "env": {}}


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whether each URL gave an image, and what the server was asked for."""

    images: list[bool]
    asked: list[str]


def engine(*domains: str) -> dict[str, Any]:
    """Arguments and variables of an engine that may ask these hosts."""
    sample = yaml.safe_load(stack.SAMPLE.read_text())
    sample["spec"]["engine"]["multimodal"] = {"allowedDomains": list(domains)}
    planned = outcome(offline_inputs(sample, Settings(), ENGINES))
    assert isinstance(planned, Planned)
    made = next(m for ref, m in planned.desired.items() if ref.name.endswith("-engine") and "template" in m["spec"])
    (container,) = made["spec"]["template"]["spec"]["containers"]
    media = {one["name"]: one["value"] for one in container["env"] if one["name"].startswith("VLLM_MEDIA")}
    return {"args": container["args"], "env": media}


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> dict[Domains, Fetched]:
    """What engines that may ask these hosts get, and one without the operator's arguments; each has an own server."""
    with ExitStack() as running:
        servers = {domains: running.enter_context(media_server(OTHER, PICTURE)) for domains in (*DOMAINS, None)}
        cases = [
            {**(WITHOUT_OPERATOR if domains is None else engine(*domains)), "urls": urls(server, domains)}
            for domains, server in servers.items()
        ]
        results = vllm_options.fetched(cases, tmp_path_factory.mktemp("media"))
    return {
        domains: Fetched(images, [asked.partition("?")[0] for asked in server.asked])
        for (domains, server), images in zip(servers.items(), results, strict=True)
    }


def urls(server: MediaServer, domains: Domains) -> list[str]:
    """What an engine is asked to fetch."""
    if domains is None:
        return [server.url(OTHER), server.url(ALLOWED), redirecting(server, ALLOWED, OTHER), FILE]
    return [*tricks(server, ALLOWED, OTHER), FILE, redirecting(server, ALLOWED, OTHER), server.url(ALLOWED), PICTURE]


@pytest.mark.parametrize("domains", DOMAINS, ids=["default", "allowed host"])
def test_vllm_asks_only_allowed_hosts_for_media(fetched: dict[Domains, Fetched], domains: tuple[str, ...]) -> None:
    *closed, named, picture_of_url = fetched[domains].images
    assert not any(closed)
    assert (named, picture_of_url) == (bool(domains), True)
    assert set(fetched[domains].asked) == ({f"{ALLOWED}{REDIRECT}", f"{ALLOWED}{IMAGE}"} if domains else set())


def test_the_same_addresses_are_asked_without_the_arguments_of_the_operator(fetched: dict[Domains, Fetched]) -> None:
    assert fetched[None].images == [True, True, True, False]
    assert f"{OTHER}{IMAGE}" in fetched[None].asked
