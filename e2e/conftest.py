"""The whole stack on a real node, for all tests here; a cluster that runs already is used, and left as it is."""

from collections.abc import Iterator

import pytest

from e2e import stack
from e2e.cluster import local
from e2e.cluster.handle import LocalCluster
from e2e.served import Served

NAME = "e2e"
collect_ignore = ["model/make_tiny_llama.py", "model/run_kinds.py", "vllm_parser/parse.py"]
"""Scripts that run inside the engine's image, with what only that has."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A node with the project's images, and the operator on it."""
    ours = not local.is_running(NAME)
    try:
        cluster = stack.bring_up(NAME, owned=True)
        stack.install_operator(cluster)
        yield cluster
    finally:
        if ours:
            local.down(NAME)


@pytest.fixture(scope="module")
def tiny(cluster: LocalCluster) -> Served:
    """The sample for CPUs, served by one engine behind two routers; modules share it."""
    cluster.kubectl("apply", "--filename", str(stack.SAMPLE))
    served = Served(cluster, stack.SAMPLE_NAME)
    stack.wait_ready(cluster, served.name)
    served.scale(1)
    served.await_routers(2)
    return served
