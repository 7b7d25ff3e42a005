"""Leader election with a Lease: only its holder may act.

Kubernetes has no fencing token: it does not refuse a write because the writer has lost the Lease. Time replaces the
token, as in client-go's leader election (v0.36.3, `tools/leaderelection/leaderelection.go`):

- The holder stops to act `renew deadline` after its last renewal.
- Every write that it began before is over `write timeout` later.
- Nobody takes the Lease before `lease duration` has passed, which is longer than both together.

Each process uses only its own clock, which continues while the machine is suspended.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from inference_operator.controller.cluster import ClusterError, ConflictError, NotFoundError
from inference_operator.kube.clock import boot_time
from inference_operator.manifest import Kind, Manifest, Ref
from inference_operator.settings import Settings

LEASE = Kind("coordination.k8s.io/v1", "Lease")

STANDBY_SECONDS = 1.0
"""Interval at which a standby reads the Lease, and retry time after a failed renewal. A planned handover takes at most
this long."""
RELEASED_SECONDS = 1
"""The duration that a released Lease carries; 0 is not allowed."""
_NEVER = float("-inf")

log = logging.getLogger(__name__)


class Requests(Protocol):
    """The requests that leader election needs; `kube.client.Api` implements them."""

    async def request(self, method: str, path: str, kind: Kind, *, body: Manifest | None = None) -> Manifest:
        """The object in the API server's response; raises `ClusterError` or one of its subclasses."""


class LeaseLostError(Exception):
    """This process no longer holds the Lease; another process may hold it."""


class Lease:
    """The Lease, from the view of one process that holds it or waits for it; the clock is monotonic, in seconds."""

    def __init__(
        self, api: Requests, settings: Settings, identity: str, clock: Callable[[], float] = boot_time
    ) -> None:
        self._api = api
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._ref = Ref(LEASE, settings.lease_namespace, settings.lease_name)
        self._held: Manifest | None = None
        self._renewed = _NEVER
        self._last_response = _NEVER
        self._observed: tuple[str, float] | None = None
        """The last observed version of the Lease (empty if it was deleted), and when it was observed first."""

    def valid(self) -> bool:
        return self._held is not None and self._clock() < self._renewed + self._settings.lease_renew_deadline_seconds

    def reachable(self) -> bool:
        """Whether the API server responded to a request for the Lease within the renew deadline."""
        return self._clock() < self._last_response + self._settings.lease_renew_deadline_seconds

    def created(self) -> str:
        """When the held Lease was created, by the API server's clock; empty if none is held."""
        metadata = self._held["metadata"] if self._held else {}
        return str(metadata.get("creationTimestamp") or "")

    async def acquire(self, stop: asyncio.Event) -> bool:
        """Wait until this process holds the Lease; false if `stop` is set before."""
        last = ""
        while not stop.is_set():
            try:
                if await self._attempt():
                    log.info("%s holds %s", self._identity, self._ref)
                    return True
                message = f"{self._ref} is held by another; waiting for it"
            except ClusterError as error:
                message = f"Cannot ask for {self._ref}: {error}"
            if message != last:
                log.info(message)
                last = message
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), STANDBY_SECONDS)
        return False

    async def keep(self) -> None:
        """Renew the Lease; returns when it is lost."""
        wait = self._settings.lease_renew_seconds
        while self.valid():
            await asyncio.sleep(wait)
            wait = self._settings.lease_renew_seconds
            try:
                if self.valid():
                    await self._renew()
            except LeaseLostError as error:
                log.error("Lost %s: %s", self._ref, error)  # noqa: TRY400 - it says all there is to say
                break
            except ClusterError as error:
                log.warning("Cannot renew %s yet: %s", self._ref, error)
                wait = min(wait, STANDBY_SECONDS)
        self._held = None

    async def release(self) -> None:
        """Give the Lease up at once. Call this only when no request of this process is running any more."""
        if not self.valid() or self._held is None:
            return
        held, self._held = self._held, None
        spec = {**held["spec"], "holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS, "renewTime": _now()}
        try:
            await self._write("PUT", held, spec)
        except ClusterError as error:
            log.warning("Cannot release %s, it will run out: %s", self._ref, error)

    async def _attempt(self) -> bool:
        start = self._clock()
        lease = await self._get()
        self._last_response = self._clock()
        version = lease["metadata"]["resourceVersion"] if lease else ""
        if lease is None and self._observed is None:
            return await self._take("POST", {}, {"leaseTransitions": 0}, start)
        if self._observed is None or self._observed[0] != version:
            self._observed = (version, self._last_response)
        spec = lease.get("spec") or {} if lease else {}
        duration = float(spec.get("leaseDurationSeconds") or self._settings.lease_duration_seconds)
        # It is ours already if the response to an earlier attempt was lost.
        free = lease is not None and spec.get("holderIdentity") in (None, "", self._identity)
        if free or self._last_response - self._observed[1] >= duration:
            transitions = int(spec.get("leaseTransitions") or 0) + 1
            return await self._take("PUT" if lease else "POST", lease or {}, {"leaseTransitions": transitions}, start)
        return False

    async def _take(self, method: str, lease: Manifest, spec: Manifest, start: float) -> bool:
        try:
            self._held = await self._write(method, lease, {**spec, **self._claim(), "acquireTime": _now()})
        except ConflictError:
            return False  # another process was faster
        self._renewed = start
        return True

    async def _renew(self) -> None:
        start = self._clock()
        held = self._held or {}
        left = self._renewed + self._settings.lease_renew_deadline_seconds - start
        try:
            async with asyncio.timeout(left):
                self._held = await self._write("PUT", held, {**held["spec"], **self._claim()})
        except TimeoutError as error:
            raise ClusterError("no answer before the deadline") from error
        except NotFoundError as error:
            raise LeaseLostError("it was deleted") from error
        except ConflictError:
            # Another client wrote it: a person who kept the holder, or a process that has acquired the Lease.
            lease = await self._get()
            holder = (lease.get("spec") or {}).get("holderIdentity") if lease else None
            if holder != self._identity:
                raise LeaseLostError(f"it is held by {holder or 'nobody'}") from None
            self._held = lease
            raise
        self._renewed = start
        self._last_response = self._clock()

    def _claim(self) -> Manifest:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._settings.lease_duration_seconds,
            "renewTime": _now(),
        }

    async def _get(self) -> Manifest | None:
        try:
            return await self._api.request("GET", self._ref.path, LEASE)
        except NotFoundError:
            return None

    async def _write(self, method: str, lease: Manifest, spec: Manifest) -> Manifest:
        """Create the Lease, or replace this version of it; raises `ConflictError` if it has changed since."""
        body = self._ref.manifest(lease.get("metadata", {}), spec=spec)
        path = self._ref.path if method == "PUT" else LEASE.path(self._ref.namespace)
        return await self._api.request(method, path, LEASE, body=body)


def _now() -> str:
    """The time of day, for people; no decision depends on it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
