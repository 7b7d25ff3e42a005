"""Routers of the least HAProxy under an operator with a later one: kept while it takes over, then renewed."""

from collections.abc import Iterator

import pytest
import yaml

from e2e import images
from e2e.deploy import stack
from e2e.helpers.change_under_load import LoadedChange
from e2e.helpers.infd_command import infd
from e2e.helpers.served_deployment import Served
from e2e.load import Fault, Load
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say

NAME, EARLIER, LATER = "upgraded", "router-3.2", "router"
REQUESTS, BEFORE, AFTER = 2000, 200, 300
"""Requests of each phase, of its part before the change, and of that after it; at least."""
PATIENT_SECONDS, PHASE_SECONDS = 310.0, 900
REASON = '--output=jsonpath={.status.conditions[?(@.type=="RouterAvailable")].reason}'


def install(cluster: LocalCluster, router: str) -> None:
    """Install or upgrade the operator; its routers have this image."""
    repository, _, tag = images.reference(router).rpartition(":")
    stack.install_operator(cluster, {"router.image.repository": repository, "router.image.tag": tag})


@pytest.fixture
def served(cluster: LocalCluster) -> Iterator[Served]:
    """A service with two routers of the least HAProxy; the operator is the usual one again at the end."""
    images.build((EARLIER,))
    stack.load(cluster, EARLIER)
    install(cluster, EARLIER)
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    try:
        with Served(cluster, NAME).serving(resource) as served:
            yield served
    finally:
        install(cluster, LATER)


@pytest.mark.full
def test_routers_of_the_least_haproxy_serve_on_and_their_renewal_loses_no_request(served: Served, say: Say) -> None:
    load = Load(served.address, NAME, request_seconds=PATIENT_SECONDS)
    load.learn()
    under_load = LoadedChange(load, say, REQUESTS, PHASE_SECONDS, BEFORE, AFTER)
    pinned = served.pods("router")
    assert served.router_images() == {images.reference(EARLIER)}

    def take_over() -> None:
        install(served.cluster, LATER)
        eventually(
            lambda: served.kubectl("get", "infd", NAME, REASON) == "RouterOutdated",
            seconds=120,
            what="the later operator has the Lease, and names the earlier routers",
        )

    def renew() -> None:
        status, _, complaints = infd(served.cluster, "renew", "--routers", NAME, seconds=PHASE_SECONDS)
        assert status == 0, complaints
        eventually(
            lambda: served.router_images() == {images.reference(LATER)}, seconds=300, what="all routers are later ones"
        )

    kept = under_load("an operator with a later HAProxy", take_over)
    assert kept.ok == kept.sent >= REQUESTS
    assert served.pods("router") == pinned
    renewed = under_load("renewal of routers from HAProxy 3.2", renew)
    assert renewed.beyond(Fault.ROLL_ROUTERS) == ()
    assert renewed.ok == renewed.sent >= REQUESTS
