"""Watches on a real API server start at the resource version of a listing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from e2e.localkube.handle import LocalCluster
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.watch import Watches
from inference_operator.manifest import CONFIG_MAP, Manifest, Ref
from inference_operator.objects.names import MANAGED_SELECTOR
from tests.testing.listings import listing
from tests.testing.workspace import Workspace

SECONDS = 30
LABEL, _, VALUE = MANAGED_SELECTOR.partition("=")


@pytest.fixture
async def cluster(kubernetes: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeCluster]:
    # kopf logs in with the client that reads KUBECONFIG when it is imported.
    location = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(location, str(kubernetes.kubeconfig))
    client = await connect(kubernetes.kubeconfig)
    yield KubeCluster(Api(client))
    await client.close()  # type: ignore[no-untyped-call]


class Watched:
    """What a watch has told of config maps."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.missed = 0
        self._something = asyncio.Event()

    def see(self, event: str, manifest: Manifest) -> None:
        self.told.append((event, manifest["metadata"]["name"]))
        self._something.set()

    def miss(self) -> None:
        self.missed += 1
        self._something.set()

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not done():
                await self._something.wait()
                self._something.clear()


@asynccontextmanager
async def watched(namespace: str, version: int) -> AsyncIterator[Watched]:
    found, stop = Watched(), asyncio.Event()
    versions = {CONFIG_MAP.path(namespace): version}
    watches = Watches(found.see, versions=versions, on_watch_started=lambda _: None, on_events_lost=found.miss)
    watching = asyncio.create_task(watches.run(stop))
    try:
        await watches.revise([CONFIG_MAP], [namespace])
        yield found
    finally:
        stop.set()
        await watching


async def make(cluster: KubeCluster, namespace: str, name: str) -> Manifest:
    meta = {"name": name, "namespace": namespace, "labels": {LABEL: VALUE}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    return await cluster.create(Ref.of(body), body)


async def test_a_watch_reports_exactly_the_events_since_the_listing(cluster: KubeCluster, workspace: Workspace) -> None:
    namespace = workspace.namespace
    await make(cluster, namespace, "stays")
    goes = await make(cluster, namespace, "goes")
    version = (await listing(cluster, CONFIG_MAP, namespace=namespace)).version
    await make(cluster, namespace, "comes")
    await cluster.delete(Ref.of(goes), uid=goes["metadata"]["uid"])
    async with watched(namespace, version) as found:
        await found.until(lambda: len(found.told) > 1)
        await make(cluster, namespace, "later")
        await found.until(lambda: len(found.told) > 2)
    assert found.told == [("ADDED", "comes"), ("DELETED", "goes"), ("ADDED", "later")]
    assert found.missed == 0
