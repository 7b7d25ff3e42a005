"""Many InferenceDeployments on an in-memory cluster, with routers that are replaced when a test says so."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from inference_operator.api.reasons import ConditionType
from inference_operator.api.resource import resource
from inference_operator.controller.cache import Cache
from inference_operator.controller.cluster import RejectedError
from inference_operator.controller.reconciler import Reconciler
from inference_operator.fleet.rollout_slots import recorded_turn
from inference_operator.manifest import (
    CHILD_KINDS,
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    POD,
    Key,
    Manifest,
    Ref,
)
from inference_operator.objects.names import MANAGED_SELECTOR, ROUTER, labels, router_name, workload_name
from inference_operator.settings import Settings
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION
from tests.testing.builders import H100, NOW, deployment_status, inference_deployment, ready_pod
from tests.testing.memory_cluster import SYSTEM_METADATA, MemoryCluster

MOST_ROUNDS = 40


class _SlowCluster(MemoryCluster):
    """A cluster whose writes take time, so that reconciles run side by side, and which rejects what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.rejected: set[Ref] = set()

    async def apply(self, ref: Ref, manifest: Manifest, *, force: bool) -> Manifest:
        await asyncio.sleep(0)
        if ref in self.rejected:
            raise RejectedError("denied by a policy")
        return await super().apply(ref, manifest, force=force)


class FleetWorld:
    """The world; its settings are those of the operator that runs."""

    def __init__(self, names: Sequence[str], settings: Settings) -> None:
        self.cluster = _SlowCluster()
        parts = (name.rpartition("/") for name in names)
        self.keys = [Key(namespace or "default", name) for namespace, _, name in parts]
        self.now: datetime = NOW
        self._due: set[Key] = set()
        self._begin(settings)

    def _begin(self, settings: Settings) -> None:
        self.settings = settings
        self.cache = Cache(settings)
        self.cache.nodes.put(H100)
        self._due = set()
        self._reconciler = Reconciler(self.cluster, self.cache, lambda: self.now, on_due=self._due.add)

    async def serve(self) -> None:
        """Create all InferenceDeployments, and let all pods be ready."""
        for key in self.keys:
            self.ask(key)
        await self.settle()
        for key in self.keys:
            self.set_engines(key, ready=1)
            self.finish(key)
        await self.settle()

    async def restart(self, settings: Settings | None = None) -> None:
        """Start a new process, perhaps with other settings."""
        self.cluster.events.clear()
        self._begin(settings or self.settings)
        await self.cache.replace(INFERENCE_DEPLOYMENT, self.cluster.pages(INFERENCE_DEPLOYMENT))
        for kind in (*CHILD_KINDS, POD):
            await self.cache.replace(kind, self.cluster.pages(kind, selector=MANAGED_SELECTOR))
        self._due.update(self.cache.resource_keys())
        await self.settle()

    async def settle(self) -> None:
        """Reconcile side by side whatever an event or a turn names, until nothing is left."""
        for _ in range(MOST_ROUNDS):
            while self.cluster.events:
                event, manifest = self.cluster.events.popleft()
                self._due |= self.cache.forget(manifest) if event == "DELETED" else self.cache.put(manifest)
            if not self._due:
                return
            due = sorted(self._due, key=str)
            self._due.clear()
            await asyncio.gather(*map(self._reconciler.handle, due))
        raise AssertionError(f"no rest after {MOST_ROUNDS} rounds")

    async def recheck(self, *keys: Key) -> None:
        """Reconcile keys without an event, as a requeue does."""
        self._due.update(keys)
        await self.settle()

    # What users and controllers do.

    def ask(self, key: Key, spec: Manifest | None = None) -> None:
        """Apply an InferenceDeployment."""
        manifest = inference_deployment(name=key.name, **(spec or {}))
        meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
        meta["namespace"] = key.namespace
        self.cluster.apply_as("kubectl", {**manifest, "metadata": meta})

    def set_engines(self, key: Key, *, ready: int) -> None:
        """Set how many engines are ready."""
        ref = Ref(DEPLOYMENT, key.namespace, workload_name(key.name, "engine"))
        seen = self.live(ref)["metadata"]["generation"]
        self.cluster.set_status(ref, deployment_status(1, ready=ready, seen=seen))

    def finish(self, key: Key) -> None:
        """Replace all routers by those of the latest template."""
        routers = self.routers(key)
        name = f"{router_name(key.name)}-a"
        pod = {
            "apiVersion": "v1",
            "kind": POD.name,
            "metadata": {
                "name": name,
                "namespace": key.namespace,
                "labels": labels(key.name, ROUTER),
                "annotations": {TEMPLATE_HASH_ANNOTATION: template(routers)},
            },
        }
        self.cluster.apply_as("kubelet", pod)
        self.cluster.set_status(Ref(POD, key.namespace, name), ready_pod())
        status = deployment_status(routers["spec"]["replicas"], seen=routers["metadata"]["generation"])
        self.cluster.set_status(Ref.of(routers), status)

    # What is there.

    def live(self, ref: Ref) -> Manifest:
        found = self.cluster.peek(ref)
        assert found is not None, f"{ref} is not there"
        return found

    def routers(self, key: Key) -> Manifest:
        return self.live(Ref(DEPLOYMENT, key.namespace, router_name(key.name)))

    def engines(self, key: Key) -> Manifest:
        return self.live(Ref(DEPLOYMENT, key.namespace, workload_name(key.name, "engine")))

    def with_image(self, image: str) -> set[Key]:
        """The InferenceDeployments whose engines get this image."""
        return self._where(lambda key: f"'{image}'" in str(self.engines(key)["spec"]["template"]["spec"]))

    def in_turn(self) -> set[Key]:
        """The InferenceDeployments with a recorded turn."""
        return self._where(lambda key: any(map(recorded_turn, (self.routers(key), self.engines(key)))))

    def unfinished(self) -> set[Key]:
        """The InferenceDeployments with routers of an earlier template."""
        return self._where(lambda key: self._running(key) != template(self.routers(key)))

    def changed(self, value: str) -> set[Key]:
        """The InferenceDeployments whose routers have this value of the setting."""
        return self._where(lambda key: f"'{value}'" in str(self.routers(key)["spec"]["template"]["metadata"]))

    def renewed(self, key: Key) -> str:
        """The reason of the condition Renewed; empty without one."""
        live = self.live(Ref(INFERENCE_DEPLOYMENT, key.namespace, key.name))
        condition = resource(live).status.condition(ConditionType.RENEWED)
        return condition.reason if condition else ""

    def _where(self, holds: Callable[[Key], bool]) -> set[Key]:
        return {key for key in self.keys if holds(key)}

    def _running(self, key: Key) -> str:
        pod = self.live(Ref(POD, key.namespace, f"{router_name(key.name)}-a"))
        return str(pod["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION])


def template(routers: Manifest) -> str:
    """The hash of the pod template of routers."""
    return str(routers["spec"]["template"]["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION])


def names(keys: Iterable[Key]) -> list[str]:
    """The names, sorted."""
    return sorted(key.name for key in keys)
