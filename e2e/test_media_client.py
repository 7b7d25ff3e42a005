"""The client with which vLLM fetches media, in the engine's image, with the arguments and variables of an engine."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import stack, vllm_options
from e2e.media_server import IMAGE, REDIRECT, media_server, redirecting, tricks
from e2e.test_models import picture
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings

ALLOWED, OTHER = "localhost", "127.0.0.1"
PICTURE = picture((255, 0, 0))
FILE = "file:///etc/hosts"


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


@pytest.mark.parametrize("domains", [(), (ALLOWED,)], ids=["default", "allowed host"])
def test_vllm_asks_only_allowed_hosts_for_media(domains: tuple[str, ...], tmp_path: Path) -> None:
    with media_server(OTHER, PICTURE) as server:
        closed = [*tricks(server, ALLOWED, OTHER), FILE]
        redirect, named = redirecting(server, ALLOWED, OTHER), server.url(ALLOWED)
        case = {**engine(*domains), "urls": [*closed, redirect, named, PICTURE]}
        (fetched,) = vllm_options.fetched([case], tmp_path)
    assert fetched == [*(False for _ in closed), False, bool(domains), True]
    paths = [asked.partition("?")[0] for asked in server.asked]
    assert set(paths) == ({f"{ALLOWED}{REDIRECT}", f"{ALLOWED}{IMAGE}"} if domains else set())


def test_the_same_addresses_are_asked_without_the_arguments_of_the_operator(tmp_path: Path) -> None:
    with media_server(OTHER, PICTURE) as server:
        urls = [server.url(OTHER), server.url(ALLOWED), redirecting(server, ALLOWED, OTHER), FILE]
        (fetched,) = vllm_options.fetched([{"args": ["m"], "env": {}, "urls": urls}], tmp_path)
    assert fetched == [True, True, True, False]
    assert f"{OTHER}{IMAGE}" in server.asked
