"""Watches the routers of resources without engines: each answers one long request as soon as it holds a request.

To read the routers of 1,000 resources every second instead would be 4,000 requests a second. A log line by UDP would
need a port, a Service and a network policy of its own, and may be lost. A router of an earlier release answers at once.
It is asked again every `POLL_SECONDS`.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from inference_operator.manifest import Key
from inference_operator.objects.names import ROUTER
from inference_operator.router.observe import HELD_PATH, HELD_SECONDS
from inference_operator.scrape.pod_client import Address, PodClient
from inference_operator.views.pod import PodView

POLL_SECONDS = 5.0
"""Least time between two requests to the same router that holds no request."""

SLACK_SECONDS = 10.0
"""How much longer than `HELD_SECONDS` an answer may take."""

_HELD = re.compile(r"^inference_operator_router_held_requests ([0-9]+)$", re.MULTILINE)


class HeldWatch:
    """One waiting request to each process of each ready router of the keys at zero.

    Args:
        pods: the pods of a key.
        on_held: called each time a router holds a request.
        client: sends the requests.
        metrics_ports: the ports of a router's processes.
    """

    def __init__(
        self,
        pods: Callable[[Key], Sequence[PodView]],
        on_held: Callable[[Key], None],
        client: PodClient,
        metrics_ports: Callable[[PodView], Sequence[int]],
    ) -> None:
        self._pods = pods
        self._on_held = on_held
        self._client = client
        self._metrics_ports = metrics_ports
        self._tasks: dict[tuple[Key, Address], asyncio.Task[None]] = {}

    def follow(self, keys: Iterable[Key]) -> None:
        """Watch the routers of exactly these keys."""
        wanted = {(key, address) for key in keys for address in self._addresses(key)}
        for place in [place for place in self._tasks if place not in wanted]:
            self._tasks.pop(place).cancel()
        for place in wanted - self._tasks.keys():
            self._tasks[place] = asyncio.create_task(self._watch(*place))

    async def close(self) -> None:
        """End all requests."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _addresses(self, key: Key) -> list[Address]:
        routers = (pod for pod in self._pods(key) if pod.component == ROUTER and pod.ready and not pod.terminating)
        return [Address(pod.address, port) for pod in routers if pod.address for port in self._metrics_ports(pod)]

    async def _watch(self, key: Key, address: Address) -> None:
        while True:
            asked = monotonic()
            text = await self._client.get_late(address, HELD_PATH, seconds=HELD_SECONDS + SLACK_SECONDS)
            held = _HELD.search(text or "")
            if held and int(held[1]):
                self._on_held(key)
                await asyncio.sleep(1.0)
            elif (spent := monotonic() - asked) < POLL_SECONDS:
                await asyncio.sleep(POLL_SECONDS - spent)
