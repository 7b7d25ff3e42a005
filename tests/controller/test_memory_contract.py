import pytest

from inference_operator.manifest import Manifest
from tests.testing.cluster_contract import ClusterContract
from tests.testing.memory_cluster import MemoryCluster


class OtherMemoryManager:
    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    async def apply(self, manifest: Manifest) -> Manifest:
        return self._cluster.apply_as("somebody-else", manifest)


class TestMemoryCluster(ClusterContract):
    @pytest.fixture
    async def cluster(self) -> MemoryCluster:
        return MemoryCluster()

    @pytest.fixture
    async def namespace(self) -> str:
        return "default"

    @pytest.fixture
    async def other_manager(self, cluster: MemoryCluster) -> OtherMemoryManager:
        return OtherMemoryManager(cluster)
