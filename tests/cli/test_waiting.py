"""The wait of commands in a cluster."""

import pytest

from inference_operator.cli.cluster_command import Step, wait_until
from inference_operator.cli.parser import UsageError
from inference_operator.controller.cluster import ClusterError, ForbiddenError
from inference_operator.manifest import Manifest, Ref
from tests.controller.virtual_time import run
from tests.status.situations import RAW
from tests.testing.memory_cluster import MemoryCluster

REF = Ref.of(RAW)
DELETED = UsageError("it was deleted.")
LOOKS = 4


class Cluster(MemoryCluster):
    """A cluster in memory whose API server fails at some reads."""

    def __init__(self, failing: dict[int, Exception]) -> None:
        super().__init__()
        self.failing, self.looks = failing, 0

    async def get(self, ref: Ref) -> Manifest | None:
        self.looks += 1
        if error := self.failing.get(self.looks):
            raise error
        return RAW if ref == REF else None


def waited(cluster: Cluster) -> Manifest:
    async def progress(_: Manifest) -> Step:
        return Step(is_last=cluster.looks >= LOOKS)

    async def story() -> Manifest:
        return await wait_until(cluster, REF, progress, deleted=DELETED)

    return run(story())


def test_an_api_server_that_does_not_answer_for_a_while_ends_no_wait() -> None:
    assert waited(Cluster({2: ClusterError("refused the connection"), 3: ClusterError("HTTP 503")})) == RAW


@pytest.mark.parametrize("failing", [{1: ClusterError("refused the connection")}, {2: ForbiddenError("no right")}])
def test_a_wait_does_not_begin_without_an_answer_and_ends_where_the_right_is_withdrawn(
    failing: dict[int, Exception],
) -> None:
    with pytest.raises(ClusterError):
        waited(Cluster(failing))
