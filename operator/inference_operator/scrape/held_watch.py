"""Watches the routers of resources without engines: each answers one long request as soon as it holds a request.

To read the routers of 1,000 resources every second instead would be 4,000 requests a second. A log line by UDP would
need a port, a Service and a network policy of its own, and may be lost. A router that answers at once
without a held request is asked again every `POLL_SECONDS`.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from inference_operator.manifest import Key
from inference_operator.objects.names import ROUTER
from inference_operator.router.observe import HELD_PATH, HELD_SECONDS
from inference_operator.scrape.held_request import HeldRequest
from inference_operator.scrape.pod_client import Address
from inference_operator.views.pod import PodView

POLL_SECONDS = 5.0
"""Least time between two requests to the same router that holds no request."""

SLACK_SECONDS = 10.0
"""How much longer than `HELD_SECONDS` an answer may take."""

STARTS_PER_SECOND = 400
"""Connections that are opened per second: after a start of the operator, thousands at once would time out."""

HELD_AGAIN_SECONDS = 1.0
"""Time until a router that holds a request is asked again: it answers at once."""


class HeldWatch:
    """One waiting request to each process of each ready router of the keys at zero.

    Args:
        on_held: called each time a router holds a request.
        metrics_ports: the ports of a router's processes.
    """

    def __init__(
        self,
        pods: Callable[[Key], Sequence[PodView]],
        on_held: Callable[[Key], None],
        metrics_ports: Callable[[PodView], Sequence[int]],
    ) -> None:
        self._pods = pods
        self._on_held = on_held
        self._metrics_ports = metrics_ports
        self._requests: dict[tuple[Key, Address], HeldRequest] = {}

    def follow(self, keys: Iterable[Key]) -> None:
        desired = {(key, address) for key in keys for address in self._addresses(key)}
        for place in self._requests.keys() - desired:
            self._requests.pop(place).close()
        loop = asyncio.get_running_loop()
        for number, (key, address) in enumerate(desired - self._requests.keys()):
            request = HeldRequest(
                address, HELD_PATH, seconds=HELD_SECONDS + SLACK_SECONDS, on_answer=self._on_answer(key)
            )
            self._requests[key, address] = request
            loop.call_later(number / STARTS_PER_SECOND, request.ask)

    def close(self) -> None:
        for request in self._requests.values():
            request.close()
        self._requests.clear()

    def _addresses(self, key: Key) -> list[Address]:
        routers = (pod for pod in self._pods(key) if pod.component == ROUTER and pod.ready and not pod.terminating)
        return [Address(pod.address, port) for pod in routers if pod.address for port in self._metrics_ports(pod)]

    def _on_answer(self, key: Key) -> Callable[[int | None], float]:
        """The callback for each answer of a router process of this key; it returns the wait until the next request."""
        sent_at = monotonic()

        def answered(held: int | None) -> float:
            nonlocal sent_at
            if held:
                self._on_held(key)
            wait = HELD_AGAIN_SECONDS if held else max(0.0, POLL_SECONDS - (monotonic() - sent_at))
            if held is None:
                wait += random.uniform(0.0, POLL_SECONDS)  # noqa: S311 - spreads load, guards nothing
            sent_at = monotonic() + wait
            return wait

        return answered
