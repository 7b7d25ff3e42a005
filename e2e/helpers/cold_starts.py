"""Services at zero, and the lone first request that starts an engine of each."""

import asyncio
import http.client
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from e2e.deploy import stack
from e2e.helpers.fake_engines import resource_of_stand_ins
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.objects.names import COMPONENT_LABEL, NAME_LABEL, ROUTER
from inference_operator.router.process import METRICS_PORTS
from inference_operator.router.stats import SAMPLE_PATH, router_sample

AUTOSCALING = {
    "minReplicas": 0,
    "maxReplicas": 1,
    "targetConcurrency": 4,
    "scaleDownDelay": "30s",
    "idleTimeout": "10s",
}
"""The shortest times that the API takes."""
SOON = 300.0
"""Limit in seconds for steps that take half a minute on an idle machine."""
KEPT = 4
"""Connections of each service that are kept from one start to the next."""


@dataclass
class ColdStarts:
    """Services of stand-ins that scale to zero, with what their clients got."""

    services: list[Served]
    answers: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    kept: list[http.client.HTTPConnection] = field(default_factory=list)

    def await_zero(self) -> None:
        """Wait until no service has an engine, and each of its HAProxy processes knows."""
        for served in self.services:
            eventually(partial(_at_zero, served), seconds=SOON, what=f"{served.name} is at zero")

    async def start_all(self) -> None:
        """A lone first request to each service at the same time, on a connection of its own."""
        self.starts += len(self.services)
        await asyncio.gather(*(asyncio.to_thread(self._ask_alone, served) for served in self.services))

    def keep(self) -> None:
        """Open connections, and keep them."""
        for served in self.services:
            for _ in range(KEPT):
                self.kept.append(_connection(served))
        self.use_kept()

    def use_kept(self) -> None:
        """A request on each connection that is kept: one that was cut is not opened again, so its request is lost."""
        for place, connection in enumerate(self.kept):
            self._ask(self.services[place // KEPT], connection)

    def restarts(self) -> Mapping[str, Mapping[str, int]]:
        """How often each container of each router has restarted, by the pod's uid."""
        names = ", ".join(served.name for served in self.services)
        selector = f"--selector={COMPONENT_LABEL}={ROUTER},{NAME_LABEL} in ({names})"
        pods = json.loads(self.services[0].kubectl("get", "pods", selector, "--output=json"))["items"]
        return {
            pod["metadata"]["uid"]: {one["name"]: one["restartCount"] for one in pod["status"]["containerStatuses"]}
            for pod in pods
        }

    def close(self) -> None:
        """Close the connections that are kept."""
        for connection in self.kept:
            connection.close()

    def _ask_alone(self, served: Served) -> None:
        with closing(_connection(served)) as connection:
            self._ask(served, connection)

    def _ask(self, served: Served, connection: http.client.HTTPConnection) -> None:
        body = json.dumps({"model": served.name, "prompt": "Hello"})
        try:
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            self.answers[str(answer.status)] += 1
        except (OSError, http.client.HTTPException) as error:
            self.answers[f"{served.name}: {error!r}"] += 1


def _connection(served: Served) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(served.address, timeout=SOON)
    connection.connect()
    connection.auto_open = 0
    return connection


def _at_zero(served: Served) -> bool:
    if served.pods("engine"):
        return False
    for address in served.pods("router").values():
        for port in METRICS_PORTS:
            status, text = _page(address, port)
            sample = router_sample(text) if status == http.client.OK else None
            if sample is None or sample.sessions or sample.held:
                return False
    return True


def _page(address: str, port: int) -> tuple[int, str]:
    """The statistics page of a HAProxy process; status 0 without one."""
    connection = http.client.HTTPConnection(stack.authority(address, port), timeout=SOON)
    with closing(connection), suppress(OSError):
        connection.request("GET", SAMPLE_PATH)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    return 0, ""


@contextmanager
def services_at_zero(cluster: LocalCluster, routers: Mapping[str, int]) -> Iterator[ColdStarts]:
    """Services with so many routers, by name, for the block; none has an engine."""
    with ExitStack() as entered:
        services = [Served(cluster, name) for name in routers]
        for served in services:
            router = {"replicas": routers[served.name]}
            more = {"autoscaling": AUTOSCALING}
            entered.enter_context(resource_of_stand_ins(served, replicas=0, router=router, more=more))
        for served in services:
            eventually(partial(served.pods, "router"), seconds=SOON, what=f"{served.name} has a router")
            served.await_routers(routers[served.name])
        with closing(ColdStarts(services)) as starting:
            yield starting
