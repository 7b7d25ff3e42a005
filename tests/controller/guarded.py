"""A cluster of which some namespaces and kinds cannot be listed, and a lister of it."""

from collections.abc import AsyncIterator

from inference_operator.controller.cache import Cache
from inference_operator.controller.cluster import ClusterError, Listing
from inference_operator.controller.lister import Lister
from inference_operator.controller.workqueue import Priority
from inference_operator.manifest import HTTP_ROUTE, NODE, Key, Kind, Manifest, Ref
from inference_operator.objects.names import MANAGED_BY_LABEL, MANAGER, NAME_LABEL
from inference_operator.settings import Settings
from tests.testing.builders import SETTINGS, inference_deployment
from tests.testing.memory_cluster import SYSTEM_METADATA, MemoryCluster

A, B = Key("team-a", "qwen"), Key("team-b", "qwen")


class Guarded(MemoryCluster):
    """Some namespaces cannot be listed."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str | None, ClusterError] = {}
        self.nodes_error: ClusterError | None = None
        self.routes_error: ClusterError | None = None
        self.routes_errors: dict[str | None, ClusterError] = {}
        """The same, by namespace."""
        self.tried: list[tuple[Kind, str | None]] = []
        """The listings that were begun: kind and namespace."""
        self.breaks_off = False
        """Whether every listing fails after its first page."""

    async def pages(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[Listing]:
        self.tried.append((kind, namespace))
        of_kind = {NODE: self.nodes_error, HTTP_ROUTE: self.routes_error}
        error = of_kind.get(kind) or self.errors.get(namespace)
        error = error or (self.routes_errors.get(namespace) if kind == HTTP_ROUTE else None)
        if error:
            raise error
        async for page in super().pages(kind, namespace=namespace, selector=selector):
            yield page
            if self.breaks_off:
                raise ClusterError("the answer broke off")


def asked(key: Key, *, replicas: int = 1) -> Manifest:
    """An InferenceDeployment, as a user writes it."""
    manifest = inference_deployment(name=key.name, replicas=replicas)
    meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
    return {**manifest, "metadata": {**meta, "namespace": key.namespace}}


class Scene:
    """Two InferenceDeployments in two namespaces, and what the lister queued."""

    def __init__(self, *namespaces: str) -> None:
        self.cluster = Guarded()
        self.cache = Cache(SETTINGS)
        self.added: list[Key] = []
        self.urgent: list[Key] = []
        """The keys of `added` with high priority."""
        self.lister = Lister(self.cluster, self.cache, Settings(namespaces=namespaces), self.add)
        for key in (A, B):
            self.cluster.apply_as("kubectl", asked(key))

    def add(self, key: Key, priority: Priority) -> None:
        self.added.append(key)
        if priority is Priority.HIGH:
            self.urgent.append(key)


def route(key: Key) -> Manifest:
    """An HTTPRoute of an InferenceDeployment, as the operator makes it."""
    labels = {NAME_LABEL: key.name, MANAGED_BY_LABEL: MANAGER}
    meta = {"name": key.name, "namespace": key.namespace, "labels": labels}
    return {"apiVersion": HTTP_ROUTE.api_version, "kind": HTTP_ROUTE.name, "metadata": meta, "spec": {}}


def route_of(key: Key) -> Ref:
    """Its address."""
    return Ref(HTTP_ROUTE, key.namespace, key.name)
