"""Fixtures: a cluster with a real node, the operator on it, and a served model."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served, await_all_left
from e2e.localkube import kind, local
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import IpFamily
from e2e.runs.printed_figures import pytest_runtest_logreport, say

__all__ = ["pytest_runtest_logreport", "say"]
IP_FAMILY = "--ip-family"
"""The option for the addresses of the tests' cluster."""
LAST = ("test_release.py", "test_uninstall.py")
"""Replace and uninstall the operator that all tests share."""
DUAL_STACK = "test_dual_stack.py"
"""Runs on a cluster with addresses of both families."""
PROVIDER = "--cluster-provider"
"""The option for what provides the tests' cluster."""
ON_KIND = ("test_answers.py", "test_causes.py", "test_helm.py", "test_sizing.py", "test_uninstall.py", "test_zero.py")
"""The tests that run on kind too: the others look into the node's processes, or change its network."""
collect_ignore = [
    "model/run_disaggregation.py",
    "model/make_tiny_llama.py",
    "model/make_tiny_models.py",
    "model/run_kinds.py",
    "model/run_load.py",
    "model/run_starts.py",
]
collect_ignore_glob = ["vllm_parser/*.py", "sglang_parser/*.py"]
"""Scripts that run inside the engine's image; they import packages that exist only there."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption(PROVIDER, choices=(local.PROVIDER, kind.PROVIDER), default=local.PROVIDER, help="of the cluster")
    parser.addoption(IP_FAMILY, choices=list(IpFamily), default=IpFamily.IPV4, help="addresses of the cluster")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests that need addresses of both families or the local provider, on another cluster."""
    if config.getoption(PROVIDER) == kind.PROVIDER and collection_path.suffix == ".py":
        return None if collection_path.name in (*ON_KIND, "conftest.py") else True
    is_dual = config.getoption(IP_FAMILY) == IpFamily.DUAL_STACK
    return True if collection_path.name == DUAL_STACK and not is_dual else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that replace or uninstall the operator last."""
    items.sort(key=lambda item: LAST.index(item.path.name) + 1 if item.path.name in LAST else 0)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """A node with the project's images, and the operator on it."""
    if pytestconfig.getoption(PROVIDER) == kind.PROVIDER:
        with stack.tests_cluster_of_kind() as of_kind:
            yield cast("LocalCluster", of_kind)  # `ON_KIND` names the tests that need only what both have
            await_all_left()
        return
    family = IpFamily(pytestconfig.getoption(IP_FAMILY))
    with stack.tests_cluster(family) as cluster:
        yield cluster
        await_all_left()


@pytest.fixture(scope="module")
def tiny(cluster: LocalCluster) -> Served:
    """The sample for CPUs, served by one engine behind two routers; modules share it."""
    cluster.kubectl("apply", "--filename", str(stack.SAMPLE))
    served = Served(cluster, stack.SAMPLE_NAME)
    stack.wait_ready(cluster, served.name)
    served.scale(1)
    served.await_routers(2)
    return served
