"""Fixtures: a cluster with a real node, the operator on it, and a served model."""

from collections.abc import Iterator

import pytest

from e2e import stack
from e2e.cluster.handle import LocalCluster
from e2e.cluster.network import IpFamily
from e2e.said import pytest_runtest_logreport, say
from e2e.served import Served

__all__ = ["pytest_runtest_logreport", "say"]
IPV6 = "--ipv6"
"""The option with which the tests' cluster has IPv6 addresses only."""
LAST = "test_uninstall.py"
"""Uninstalls the operator that all tests share."""
collect_ignore = ["model/make_tiny_llama.py", "model/run_kinds.py", "vllm_parser/parse.py", "vllm_parser/derive.py"]
"""Scripts that run inside the engine's image; they import packages that exist only there."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(IPV6, action="store_true", help="start the cluster with IPv6 addresses only")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the test of `helm uninstall` last."""
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """A node with the project's images, and the operator on it."""
    family = IpFamily.IPV6 if pytestconfig.getoption(IPV6) else IpFamily.IPV4
    with stack.tests_cluster(family) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tiny(cluster: LocalCluster) -> Served:
    """The sample for CPUs, served by one engine behind two routers; modules share it."""
    cluster.kubectl("apply", "--filename", str(stack.SAMPLE))
    served = Served(cluster, stack.SAMPLE_NAME)
    stack.wait_ready(cluster, served.name)
    served.scale(1)
    served.await_routers(2)
    return served
