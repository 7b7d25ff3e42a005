"""API keys on a real node: made by `infd key create`, mounted and updated by the kubelet."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.helpers.infd_command import infd
from e2e.helpers.served_deployment import Served
from e2e.localkube.waiting import eventually

SECRET = "users"  # noqa: S105 - the name of a Secret
SYNC_SECONDS = 180
"""The kubelet updates a mounted Secret within its sync period of a minute and the lifetime of its cache, which is about
as long (Kubernetes documentation, "Secrets"); and a margin."""


def created(user: str) -> tuple[str, str]:
    """The Secret for a new key as YAML, and the key."""
    command = [str(Path(sys.executable).with_name("infd")), "key", "create", user, "--secret", SECRET]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout, done.stderr.splitlines()[-1]


def status(served: Served, key: str) -> int:
    body = {"model": served.name, "prompt": "otters", "max_tokens": 1}
    return served.post("/v1/completions", body, key=key)[0]


@pytest.fixture
def keyed(tiny: Served) -> Iterator[tuple[Served, str]]:
    """The tiny model behind routers that require a key, and a key."""
    secret, key = created("alice")
    tiny.kubectl("apply", "--filename=-", input=secret)
    _patch(tiny, {"secretRef": {"name": SECRET}})
    yield tiny, key
    _patch(tiny, None)
    tiny.kubectl("delete", "secret", SECRET)


def _patch(served: Served, keys: object) -> None:
    served.patch({"router": {"keys": keys}})
    volumes = "--output=jsonpath={.spec.template.spec.volumes[*].name}"
    eventually(
        lambda: ("api-keys" in served.kubectl("get", "deployment", f"{served.name}-router", volumes)) == bool(keys),
        seconds=30,
        what="the routers' Deployment",
    )
    served.await_routers(2)


def _all(served: Served, key: str, wanted: int) -> bool:
    """Whether so many requests get this status that each process of each router has answered one."""
    return all(status(served, key) == wanted for _ in range(20))


@pytest.mark.full
def test_infd_chat_takes_the_key_of_a_secret(keyed: tuple[Served, str]) -> None:
    tiny, key = keyed
    question = ("chat", tiny.name, "otters", f"--namespace={tiny.namespace}", "--max-tokens=4")
    status, _, complaints = infd(tiny.cluster, *question)
    assert (status, "needs an API key" in complaints) == (2, True)
    tiny.kubectl("create", "secret", "generic", "of-a-client", f"--from-literal=key={key}")
    try:
        status, _, complaints = infd(tiny.cluster, *question, "--key-from=of-a-client")
        assert status == 0, complaints
        status, _, complaints = infd(tiny.cluster, *question, f"--key-from={SECRET}")
        assert (status, "has only hashes" in complaints) == (2, True)
    finally:
        tiny.kubectl("delete", "secret", "of-a-client")


@pytest.mark.full
def test_routers_accept_only_keys_of_the_secret_and_follow_it_without_a_restart(keyed: tuple[Served, str]) -> None:
    served, key = keyed
    assert (status(served, key), status(served, "wrong")) == (200, 401)
    routers = set(served.pods("router"))
    secret, other = created("bob")
    served.kubectl("apply", "--filename=-", input=secret)
    eventually(lambda: _all(served, key, 401), seconds=SYNC_SECONDS, what="the old key is refused by all")
    assert _all(served, other, 200)
    assert set(served.pods("router")) == routers
