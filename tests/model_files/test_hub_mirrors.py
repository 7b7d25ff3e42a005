"""Mirrors and proxies of a hub that leave out what the hub's client needs, as public reports tell of them.

Nexus and Artifactory (huggingface/huggingface_hub#1796, sonatype/nexus-public#828) pass files on without the hub's
headers, and have the hub below a path of their own.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.model_files.test_hub import CONFIG, SINGLE, Infd, error, inspect
from tests.testing.hub import COMMIT, PREFIX, REPOSITORY, Hub, Request, serving

__all__ = ["inspect"]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(sizes=dict(SINGLE)).add("config.json", CONFIG)) as served:
        yield served


def without(*lacking: str) -> Callable[[Request], None]:
    """Files whose answers lack some headers."""

    def answer(request: Request) -> None:
        content = request.hub.files["config.json"]
        headers = {"X-Repo-Commit": COMMIT, "ETag": '"a"', "Content-Length": str(len(content))}
        request.send_response(200)
        for name in headers.keys() - set(lacking):
            request.send_header(name, headers[name])
        request.end_headers()
        request.close_connection = True
        if request.command == "GET":
            request.send(content)

    return answer


def listed(**changes: Any) -> Callable[[Request], None]:  # noqa: ANN401 - JSON
    """A listing with other fields; None leaves one out."""

    def answer(request: Request) -> None:
        document = {**json.loads(request.hub.listing()), **changes}
        request.give(json.dumps({key: value for key, value in document.items() if value is not None}).encode())

    return answer


def refused(status: int, **headers: str) -> Callable[[Request], None]:
    return lambda request: request.refuse(status, **headers)


HEADERS = "Let the mirror pass on the hub's answers with all of their fields and headers"
CAUSES: Mapping[str, tuple[str, Callable[[Request], None], str, str]] = {
    "no commit of a file": ("config.json", without("X-Repo-Commit"), "no header `X-Repo-Commit`.", HEADERS),
    "no ETag of a file": ("config.json", without("ETag"), "no header `ETag` or `X-Linked-ETag`.", HEADERS),
    "no commit of the listing": (
        "model",
        listed(sha=None),
        "the mirror names no commit.",
        HEADERS,
    ),
    "no sizes in the listing": (
        "model",
        listed(siblings=[{"rfilename": "config.json"}]),
        "the mirror lists files without their sizes.",
        HEADERS,
    ),
    "files that an account may not read": (
        "config.json",
        refused(403),
        "this account may not read",
        "Give the account",
    ),
    "files under a limit": ("config.json", refused(429, Retry_After="1"), "too many requests", "Wait 1 s"),
    "no HEAD": ("config.json", refused(405), "the hub returned the error 405.", "Check the network"),
}


@pytest.mark.parametrize("case", CAUSES)
def test_what_a_mirror_leaves_out_is_named_with_its_cure(case: str, hub: Hub, inspect: Infd) -> None:
    what, answer, words, cure = CAUSES[case]
    hub.odd[what] = answer
    cause, problem, helps = error(inspect())
    assert cause == ("Gated" if "account" in case else "Unreachable")
    assert words in problem
    assert helps.startswith(cure)


def test_a_commit_that_is_asked_for_needs_none_of_the_listing(hub: Hub, inspect: Infd) -> None:
    hub.odd["model"] = listed(sha=None)
    assert inspect("--revision", COMMIT)[1]["config"] == CONFIG


def test_a_hub_below_the_path_of_a_repository_manager_is_read(hub: Hub, inspect: Infd) -> None:
    """Its redirects name no host."""
    hub.add("elsewhere.json", CONFIG)
    hub.odd["config.json"] = lambda request: request.refuse(
        307, Location=f"{PREFIX}/{REPOSITORY}/resolve/{COMMIT}/elsewhere.json"
    )
    assert inspect(HF_ENDPOINT=f"{hub.endpoint}{PREFIX}")[1]["config"] == CONFIG
