"""`python -m bench.adapters`: from an edit of `model.adapters` until every router follows it, on a real node (root).

One engine of the CPU sample, real vLLM, behind two routers of two processes each. Each edit adds an adapter:

- one whose files are on the claim from before: its Job only checks them
- a new one, which its Job copies from another claim

It counts as listed once `ASKED` new connections to each router pod in a row have it in `/v1/models`, so that both of
its processes were asked. Then the adapter is removed, until no router lists it. Beside it the memory of slots:
computed, and allocated by vLLM for three kinds of models.
"""

import json
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from bench.figures import Figure, at_most, parser_of, shown
from e2e.deploy import stack
from e2e.engines.adapter_memory import measured as memory_beside
from e2e.helpers.adapter_files import write_adapter
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import IpFamily
from e2e.localkube.waiting import eventually
from inference_operator.router.process import PORT

NAME, FILES, CACHE = "bench-adapters", "bench-adapter-files", "bench-adapter-cache"
EDITS = 5
ASKED = 8
SECONDS = 120.0
CACHED_AIM = 5.0
"""An edit that a person waits for."""
SLOT_AIM = 1.25
"""Computed over allocated; `e2e/test_adapter_memory.py` says which model has fewer slots than are counted."""


class Bench:
    """The resource, and its list of adapters."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.listed: list[str] = ["kept"]

    def edit(self, names: Sequence[str], awaited: str, *, gone: bool = False) -> float:
        """Seconds from the edit until each router lists the awaited name, or none does."""
        started = time.monotonic()
        adapters = [{"name": name, "source": f"pvc://{FILES}/{name}"} for name in names]
        change = {"spec": {"model": {"adapters": adapters}}}
        self.served.kubectl("patch", f"infd/{NAME}", "--type=merge", f"--patch={json.dumps(change)}")
        for address in self.served.pods("router").values():
            eventually(
                lambda address=address: all((awaited in _models(address)) is not gone for _ in range(ASKED)),  # type: ignore[misc]
                seconds=SECONDS,
                what=f"the routers follow the list {names}",
            )
        return time.monotonic() - started

    def added_and_removed(self, name: str) -> tuple[float, float]:
        """Seconds to add an adapter, and to remove it."""
        return self.edit([*self.listed, name], name), self.edit(self.listed, name, gone=True)


def _models(address: str) -> set[str]:
    url = f"http://{stack.authority(address, PORT)}/v1/models"
    request = urllib.request.Request(url, headers={"Connection": "close"})
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - a cluster's own
        return {one["id"] for one in json.load(answer)["data"]}


def sample() -> Mapping[str, Any]:
    """The CPU sample with one adapter."""
    resource: dict[str, Any] = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    resource["spec"]["model"]["adapters"] = [{"name": "kept", "source": f"pvc://{FILES}/kept"}]
    resource["spec"]["cache"] = {"claimName": CACHE}
    return resource


def edits(cluster: LocalCluster) -> Iterator[Figure]:
    """The figures of the edits."""
    folder, cache = cluster.volumes / FILES, cluster.volumes / CACHE
    for one in (folder, cache):
        one.mkdir(exist_ok=True)
        one.chmod(0o777)
    for number, name in enumerate(("kept", "cached", *(f"new-{n}" for n in range(EDITS)))):
        write_adapter(folder / name, number)
    served, access = Served(cluster, NAME), "ReadWriteMany"
    with claim_of(cluster, FILES, folder, access=access), claim_of(cluster, CACHE, cache, access=access):
        try:
            served.kubectl("apply", "--filename=-", input=yaml.safe_dump(sample()))
            stack.wait_ready(cluster, NAME)
            served.await_routers(2)
            bench = Bench(served)
            bench.edit(bench.listed, "kept")
            bench.added_and_removed("cached")  # its files come to the claim
            cached = [bench.added_and_removed("cached") for _ in range(EDITS)]
            new = [bench.added_and_removed(f"new-{n}") for n in range(EDITS)]
        finally:
            served.kubectl("delete", f"infd/{NAME}", "--wait=true", "--ignore-not-found")
            served.await_gone()
    yield from _times("cached: edit to listed by every router", [one for one, _ in cached], CACHED_AIM)
    yield from _times("new: edit to listed by every router", [one for one, _ in new])
    yield from _times("removed: edit to listed by no router", [one for _, one in (*cached, *new)])


def _times(name: str, seconds: Sequence[float], aim: float | None = None) -> Iterator[Figure]:
    bound = at_most(aim) if aim else None
    yield Figure(f"{name}, median", statistics.median(seconds), "s", bound)
    yield Figure(f"{name}, slowest", max(seconds), "s", bound)


def slots() -> Iterator[Figure]:
    """Computed over allocated bytes of slots."""
    models, _ = memory_beside()
    for one in models:
        yield Figure(f"slots of {one.name}: computed / allocated", one.computed / one.measured, "", at_most(SLOT_AIM))


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the figures."""
    args = parser_of("python -m bench.adapters", "How soon an adapter can be used, and what a slot costs.").parse_args(
        arguments
    )
    with stack.tests_cluster(IpFamily.IPV4) as cluster:
        found = list(edits(cluster))
    print(shown([*found, *slots()], args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
