"""An engine over two pods together with keys, a LoRA adapter, zero engines and an engine that hangs.

The right answer of the adapter is that of the same adapter on an engine of one pod.
"""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.adapter_files import write_adapter
from e2e.helpers.container_processes import engine_core
from e2e.helpers.group_manifests import NAME, START_SECONDS, pair
from e2e.helpers.group_members import LEADER, members, restarts, uids
from e2e.helpers.infd_command import infd
from e2e.helpers.served_deployment import PROMPT, Served
from e2e.helpers.volume_claim import claim_of
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say

pytestmark = pytest.mark.full  # six starts of vLLM on two cores
FILES, CACHE, ADAPTER, REFERENCE, SECRET = "pair-files", "pair-cache", "sea", "adapted-alone", "pair-keys"
WITHOUT_COMPILER = {"name": "TORCHDYNAMO_DISABLE", "value": "1"}
"""With adapters vLLM for CPUs never warms up (0.32.0, `v1/worker/cpu_model_runner.py`): pipelines fail then, and shared
layers compile their first step, for which the image has no compiler."""
STALL_SECONDS, SCRAPE_SECONDS, NO_PROGRESS_SECONDS = 30, 2, 6
SLEEP_SECONDS = 240
"""Limit until an idle group has gone: its stabilization, and the drain of its members."""


@contextmanager
def applied(served: Served, manifest: dict[str, Any]) -> Iterator[None]:
    """The resource during the block, from when it is ready."""
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(manifest))
    try:
        stack.wait_ready(served.cluster, served.name)
        yield
    finally:
        served.kubectl("delete", f"infd/{served.name}", "--wait=true")
        served.await_gone()


@pytest.fixture(scope="module")
def adapters(cluster: LocalCluster) -> Iterator[list[dict[str, str]]]:
    """`spec.model.adapters` with one adapter, on a claim, and another claim to which it is copied."""
    folder, cache = cluster.volumes / FILES, cluster.volumes / CACHE
    for one in (folder, cache):
        one.mkdir(exist_ok=True)
        one.chmod(0o777)
    write_adapter(folder / ADAPTER, 1)
    access = "ReadWriteMany"
    with claim_of(cluster, FILES, folder, access=access), claim_of(cluster, CACHE, cache, access=access):
        yield [{"name": ADAPTER, "source": f"pvc://{FILES}/{ADAPTER}"}]


@pytest.fixture(scope="module")
def right(cluster: LocalCluster, adapters: list[dict[str, str]]) -> str:
    """What an engine of one pod answers with the adapter."""
    served, manifest = Served(cluster, REFERENCE), yaml.safe_load(stack.SAMPLE.read_text())
    manifest["metadata"]["name"] = REFERENCE
    manifest["spec"]["model"]["adapters"] = adapters
    manifest["spec"]["cache"] = {"claimName": CACHE}
    with applied(served, manifest):
        _await_adapter(served)
        answer = served.complete(PROMPT, model=ADAPTER)
        assert answer != served.complete(PROMPT)
        return answer


@pytest.fixture(scope="module")
def key(cluster: LocalCluster) -> Iterator[str]:
    """A key of the routers, as its user has it."""
    status, secret, said = infd(cluster, "key", "create", "alice", "--secret", SECRET)
    assert status == 0
    cluster.kubectl("apply", "--filename=-", input=secret)
    yield said.splitlines()[-1]
    cluster.kubectl("delete", "secret", SECRET)


@pytest.fixture(scope="module")
def served(cluster: LocalCluster, right: str, adapters: list[dict[str, str]], key: str) -> Iterator[Served]:
    """The sample over two pods with all of it, under an operator that soon takes an engine for hung."""
    del right, key  # they exist before
    numbers = {
        "settings.noProgressSeconds": NO_PROGRESS_SECONDS,
        "settings.stallSeconds": STALL_SECONDS,
        "settings.scrapeSeconds": SCRAPE_SECONDS,
    }
    stack.install_operator(cluster, numbers=numbers)
    served, manifest = Served(cluster, NAME), pair(parallelism={"tensor": 2, "pipeline": 1, "nodes": 2})
    manifest["spec"]["model"]["adapters"] = adapters
    manifest["spec"]["cache"] = {"claimName": CACHE}
    manifest["spec"]["engine"]["env"].append(WITHOUT_COMPILER)
    manifest["spec"]["router"] = {"replicas": 1, "keys": {"secretRef": {"name": SECRET}}}
    with applied(served, manifest):
        yield served
    stack.install_operator(cluster)


def _await_adapter(served: Served) -> None:
    def phases() -> dict[str, str]:
        found = json.loads(served.kubectl("get", f"infd/{served.name}", "--output=json"))["status"]
        return {one["name"]: one["phase"] for one in found.get("adapters", [])}

    eventually(
        lambda: phases() == {ADAPTER: "Ready"}, seconds=START_SECONDS, what=lambda: f"the adapter is ready: {phases()}"
    )


def asked(served: Served, key: str, model: str) -> str:
    """The text of an answer, for which a router may wait until an engine has started."""
    status, answer = served.post("/v1/completions", _question(model), key=key, seconds=START_SECONDS)
    assert status == 200, answer
    text: str = json.loads(answer)["choices"][0]["text"]
    return text


def _question(model: str) -> dict[str, Any]:
    return {"model": model, "prompt": PROMPT, "max_tokens": 8, "temperature": 0}


def test_both_members_compute_with_the_adapter_and_only_with_a_key(served: Served, key: str, right: str) -> None:
    _await_adapter(served)
    assert served.post("/v1/completions", _question(ADAPTER))[0] == 401
    assert asked(served, key, ADAPTER) == right
    assert asked(served, key, NAME) != right


def test_a_group_that_hangs_is_replaced_with_its_adapter(served: Served, key: str, right: str, say: Say) -> None:
    before, count = set(uids(served).values()), restarts(served)
    os.kill(engine_core(served.cluster, LEADER), signal.SIGSTOP)
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(asked, served, key, ADAPTER)
        eventually(
            lambda: restarts(served) != count or set(uids(served).values()) != before,
            seconds=START_SECONDS,
            what="the group is replaced or restarted",
        )
        say(f"  pods before: {sorted(before)}, and now: {sorted(uids(served).values())}")
        assert answer.result() == right, "the request was sent again, to the new engine"
    stack.wait_ready(served.cluster, NAME)
    assert len(members(served)) == 2
    assert asked(served, key, ADAPTER) == right


def test_a_group_goes_to_zero_and_comes_back_for_a_held_request(served: Served, key: str, right: str) -> None:
    change = {
        "spec": {"autoscaling": {"minReplicas": 0, "maxReplicas": 1, "idleTimeout": "30s", "scaleDownDelay": "30s"}}
    }
    served.kubectl("patch", f"infd/{NAME}", "--type=merge", f"--patch={json.dumps(change)}")
    eventually(lambda: members(served) == [], seconds=SLEEP_SECONDS, what=lambda: f"no member: {uids(served)}")
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(asked, served, key, ADAPTER)
        assert answer.result() == right
    assert len(members(served)) == 2
