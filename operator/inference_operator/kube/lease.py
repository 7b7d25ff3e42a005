"""Which process may act: the one that holds a Lease.

Kubernetes has no fencing token: a write is not refused because its writer has lost the Lease. What stands in for one
is time, as in client-go's leader election (v0.36.3, `tools/leaderelection/leaderelection.go`). The holder stops to
act `renew deadline` after its last renewal, every write it has begun by then is over `write timeout` later, and nobody
takes the Lease before `lease duration` has passed, which is longer than both together. Each process trusts only its own
clock, and one that goes on while the machine is suspended.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from inference_operator.manifest import Kind, Manifest, Ref
from inference_operator.reconcile.cluster import ClusterError, ConflictError, NotFoundError
from inference_operator.settings import Settings

LEASE = Kind("coordination.k8s.io/v1", "Lease")

STANDBY_SECONDS = 1.0
"""Between two looks of a standby, and after a renewal that failed: how long a planned handover takes at most."""
RELEASED_SECONDS = 1
"""The duration that a released Lease carries; 0 is not allowed."""
_NEVER = float("-inf")

log = logging.getLogger(__name__)


class Requests(Protocol):
    """What a Lease needs of an API server: `kube.client.Api` has it."""

    async def request(self, method: str, path: str, kind: Kind, *, body: Manifest | None = None) -> Manifest:
        """The object that the API server answers with; raises `ClusterError` where it does not."""


class LeaseLostError(Exception):
    """This process no longer holds the Lease; another may."""


def boot_time() -> float:
    """Seconds on a clock that nobody sets and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """One process's hold on the Lease, or its wait for it.

    Args:
        api: where the Lease is; its requests are not bound to holding it.
        settings: its name and times.
        identity: who holds it; never the same for two processes.
        clock: seconds that only grow.
    """

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
        self._answered = _NEVER
        self._seen: tuple[str, float] | None = None
        """Version of the Lease as seen last, and since when it has been that; an empty one where it has vanished."""

    def valid(self) -> bool:
        """Whether this process may act now."""
        return self._held is not None and self._clock() < self._renewed + self._settings.lease_renew_deadline_seconds

    def reachable(self) -> bool:
        """Whether the API server has answered lately about the Lease."""
        return self._clock() < self._answered + self._settings.lease_renew_deadline_seconds

    async def acquire(self, stop: asyncio.Event) -> bool:
        """Wait until this process holds the Lease; false if told to stop before."""
        told = ""
        while not stop.is_set():
            try:
                if await self._attempt():
                    log.info("%s holds %s", self._identity, self._ref)
                    return True
                now = f"{self._ref} is held by another; waiting for it"
            except ClusterError as error:
                now = f"Cannot ask for {self._ref}: {error}"
            if now != told:
                log.info(now)
                told = now
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
        """Let the next one have it at once. Only to be called when nothing of this process is under way any more."""
        if not self.valid() or self._held is None:
            return
        held, self._held = self._held, None
        spec = {**held["spec"], "holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS, "renewTime": _now()}
        try:
            await self._write("PUT", held, spec)
        except ClusterError as error:
            log.warning("Cannot release %s, it will run out: %s", self._ref, error)

    async def _attempt(self) -> bool:
        begun = self._clock()
        found = await self._get()
        self._answered = self._clock()
        version = found["metadata"]["resourceVersion"] if found else ""
        if found is None and self._seen is None:
            return await self._take("POST", {}, {"leaseTransitions": 0}, begun)
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self._answered)
        spec = found.get("spec") or {} if found else {}
        duration = float(spec.get("leaseDurationSeconds") or self._settings.lease_duration_seconds)
        # It is ours already where the answer to an attempt was lost.
        free = found is not None and spec.get("holderIdentity") in (None, "", self._identity)
        if free or self._answered - self._seen[1] >= duration:
            transitions = int(spec.get("leaseTransitions") or 0) + 1
            return await self._take("PUT" if found else "POST", found or {}, {"leaseTransitions": transitions}, begun)
        return False

    async def _take(self, method: str, found: Manifest, spec: Manifest, begun: float) -> bool:
        try:
            self._held = await self._write(method, found, {**spec, **self._claim(), "acquireTime": _now()})
        except ConflictError:
            return False  # somebody was faster
        self._renewed = begun
        return True

    async def _renew(self) -> None:
        begun = self._clock()
        held = self._held or {}
        left = self._renewed + self._settings.lease_renew_deadline_seconds - begun
        try:
            async with asyncio.timeout(left):
                self._held = await self._write("PUT", held, {**held["spec"], **self._claim()})
        except TimeoutError as error:
            raise ClusterError("no answer before the deadline") from error
        except NotFoundError as error:
            raise LeaseLostError("it was deleted") from error
        except ConflictError:
            # Written by somebody else: by hand, which leaves the holder alone, or by who has taken it.
            found = await self._get()
            holder = (found.get("spec") or {}).get("holderIdentity") if found else None
            if holder != self._identity:
                raise LeaseLostError(f"it is held by {holder or 'nobody'}") from None
            self._held = found
            raise
        self._renewed = begun
        self._answered = self._clock()

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

    async def _write(self, method: str, found: Manifest, spec: Manifest) -> Manifest:
        """Create the Lease, or replace the version that was found; raises `ConflictError` if it is another by now."""
        identity = {"name": self._ref.name, "namespace": self._ref.namespace}
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": {**found.get("metadata", {}), **identity},
            "spec": spec,
        }
        path = self._ref.path if method == "PUT" else LEASE.path(self._ref.namespace)
        return await self._api.request(method, path, LEASE, body=body)


def _now() -> str:
    """The time of day, for people: nobody decides by it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
