"""An operator that is started again whenever it ends, as the kubelet does with its container."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.operated_cluster import RELEASE, SYSTEM
from tests.testing.operator_process import OperatorProcess

LIST_SECONDS, LOOK_SECONDS = 120, 1.0
LISTINGS = re.compile(r'^infd_api_requests_total\{code="200",kind="Node",verb="GET"\} (\d+)', re.MULTILINE)
"""Nodes are the last that a listing reads."""


class KeptOperator:
    """A process, and those that follow it."""

    def __init__(self, process: OperatorProcess) -> None:
        self._process = process
        self.ends: list[int] = []
        """The exit status of each process that has ended by itself."""

    def works(self) -> bool:
        """Whether it leads; starts it again if it has ended."""
        if (status := self._process.exit_status()) is not None:
            self.ends.append(status)
            self._process.launch()
        with suppress(OSError, AssertionError):  # it has just begun, or just ended
            return self._process.is_leading()
        return False

    def outlast(self, seconds: float) -> None:
        """Keep it through a time in which it cannot work."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.works()
            time.sleep(LOOK_SECONDS)

    def listings(self) -> int:
        """How many listings this process has made."""
        found = LISTINGS.search(self._process.metrics()) if self.works() else None
        return int(found[1]) if found else 0

    def lists(self) -> None:
        """Wait for a listing that begins from now on; one that ends next may have begun before."""
        now = self.listings()
        eventually(lambda: self.listings() > now + 1, seconds=LIST_SECONDS, what=lambda: f"it lists:\n{self.end()}")

    def log(self) -> str:
        """What all of them have told."""
        return self._process.log()

    def end(self) -> str:
        """What they have told last."""
        return self.log()[-6000:]


@contextmanager
def kept(cluster: LocalCluster, kubeconfig: Path, log: Path, settings: Mapping[str, str]) -> Iterator[KeptOperator]:
    """An operator that leads, until the block ends."""
    process = OperatorProcess(kubeconfig, log, settings)
    try:
        process.start()
        yield KeptOperator(process)
        assert process.stop() == 0
        assert "Traceback" not in process.log(), process.log()
    finally:
        process.kill()
        cluster.kubectl("--namespace", SYSTEM, "delete", "lease", RELEASE, "--ignore-not-found")
