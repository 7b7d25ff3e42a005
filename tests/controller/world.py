"""A reconciler on an in-memory cluster, fed by its watch events."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import ClassVar

from inference_operator.api.resource import resource
from inference_operator.api.status import Status
from inference_operator.controller.cache import Cache
from inference_operator.controller.lister import watched_kinds
from inference_operator.controller.reconciler import Reconciler
from inference_operator.manifest import CHILD_KINDS, INFERENCE_DEPLOYMENT, NETWORK_POLICY, SERVICE, Key, Manifest, Ref
from inference_operator.objects.names import MANAGED_SELECTOR
from inference_operator.status.report import Requeue
from tests.testing.builders import ENGINES, H100, KEY, NOW, ROUTERS, SETTINGS, deployment_status, inference_deployment
from tests.testing.memory_cluster import SYSTEM_METADATA, MemoryCluster, Request

RESOURCE = Ref(INFERENCE_DEPLOYMENT, KEY.namespace, KEY.name)
SERVICE_OF_PEERS = Ref(SERVICE, KEY.namespace, f"{KEY.name}-routers")
"""By which routers ask each other."""
USER = "kubectl"
MOST_ROUNDS = 5
"""A world that has not settled after so many reconciles never will."""


class World:
    rounds: ClassVar = 1
    """How often pods become ready until all are: groups are replaced one after the other."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.now: datetime = NOW
        self.settings = SETTINGS
        self._begin()

    def _begin(self) -> None:
        self.cache = Cache(self.settings)
        self.cache.nodes.put(H100)
        self.reconciler = Reconciler(self.cluster, self.cache, lambda: self.now)

    # What users and controllers do.

    def ask(self, *, source: str = "hf://Qwen/Qwen3-8B", **spec: object) -> None:
        """Apply the InferenceDeployment, as a user does."""
        manifest = inference_deployment(name=KEY.name, source=source, **spec)
        meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
        self.cluster.apply_as(USER, {**manifest, "metadata": meta})

    def edit(self, ref: Ref, change: Callable[[Manifest], None]) -> None:
        self.cluster.edit(ref, change)

    def pods_are_ready(self) -> None:
        """Set the status of both Deployments to all pods ready."""
        for ref in (ENGINES, ROUTERS):
            live = self.live(ref)
            status = deployment_status(live["spec"]["replicas"], seen=live["metadata"]["generation"])
            self.cluster.set_status(ref, status)

    # What the operator does.

    def deliver(self) -> set[Key]:
        """Put all pending events into the cache; returns the keys to reconcile."""
        keys = set[Key]()
        while self.cluster.events:
            event, manifest = self.cluster.events.popleft()
            keys |= self.cache.forget(manifest) if event == "DELETED" else self.cache.put(manifest)
        return keys

    async def reconcile(self) -> Requeue | None:
        self.deliver()
        return await self.reconciler.handle(KEY)

    async def settle(self) -> list[Request]:
        """Reconcile until no event changes the cache; returns the writes."""
        before = len(self.cluster.writes)
        for _ in range(MOST_ROUNDS):
            await self.reconcile()
            if not self.deliver():
                return self.cluster.writes[before:]
        raise AssertionError(f"no rest after {MOST_ROUNDS} rounds: {self.cluster.writes[before:]}")

    async def restart(self) -> None:
        """Start a new process: an empty cache and a complete listing."""
        self.cluster.events.clear()
        self._begin()
        await self.list_all()

    async def list_all(self) -> set[Key]:
        keys = set[Key]()
        for kind in watched_kinds(self.settings):
            selector = None if kind == INFERENCE_DEPLOYMENT else MANAGED_SELECTOR
            keys |= await self.cache.replace(kind, self.cluster.pages(kind, selector=selector))
        return keys

    # What is there.

    def live(self, ref: Ref) -> Manifest:
        found = self.cluster.peek(ref)
        assert found is not None, f"{ref} is not there"
        return found

    def children(self) -> Mapping[Ref, Manifest]:
        """All children, without system metadata, which differs between clusters."""
        return {
            ref: _timeless(m) for ref, m in self.cluster.live().items() if ref.kind in (*CHILD_KINDS, NETWORK_POLICY)
        }

    def cache_children(self) -> Mapping[Ref, Manifest]:
        """The children in the operator's cache."""
        found = self.cache.inputs(KEY, now=self.now)
        assert found is not None
        return found.children

    def status(self) -> Status:
        return resource(self.live(RESOURCE)).status

    def conditions(self) -> dict[str, tuple[str, str]]:
        return {c.type: (c.status, c.reason) for c in self.status().conditions}


def _timeless(manifest: Manifest) -> Manifest:
    meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
    owners = [{**owner, "uid": "any"} for owner in meta.get("ownerReferences", ())]
    return {**manifest, "metadata": {**meta, "ownerReferences": owners}}
