"""The cluster contract against a real API server; the in-memory cluster passes the same suite."""

from collections.abc import AsyncIterator, Iterator

import pytest
import yaml

from e2e.localkube.handle import LocalCluster
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest
from tests.testing.cluster_contract import ClusterContract
from tests.testing.operated_cluster import temporary_workspace
from tests.testing.operator_process import OperatorProcess


class Kubectl:
    """Somebody else who writes to the cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    async def apply(self, manifest: Manifest) -> Manifest:
        forced = ["apply", "--server-side", "--force-conflicts", "--field-manager=somebody-else"]
        text = self._cluster.kubectl(
            *forced, "--filename=-", "--output=yaml", "--show-managed-fields", input=yaml.safe_dump(manifest)
        )
        result: Manifest = yaml.safe_load(text)
        return result


@pytest.fixture(scope="module")
def quiet(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[LocalCluster]:
    """The cluster while no operator runs."""
    operator.stop()
    yield kubernetes
    operator.start()


class TestKubeCluster(ClusterContract):
    @pytest.fixture
    async def cluster(self, quiet: LocalCluster) -> AsyncIterator[KubeCluster]:
        client = await connect(quiet.kubeconfig)
        yield KubeCluster(Api(client))
        await client.close()  # type: ignore[no-untyped-call]  # the client's own

    @pytest.fixture
    async def namespace(self, quiet: LocalCluster) -> AsyncIterator[str]:
        with temporary_workspace(quiet, "contract") as found:
            yield found.namespace

    @pytest.fixture
    async def other_manager(self, quiet: LocalCluster) -> Kubectl:
        return Kubectl(quiet)
