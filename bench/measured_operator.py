"""Runs the operator as a process on a cluster of a bench, and measures the process."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from bench.metrics import Metrics
from e2e.localkube.handle import LocalCluster
from inference_operator.settings import ModelInspection, Settings
from tests.testing.operator_process import OperatorProcess

SETTINGS = Settings(model_inspection=ModelInspection.WHEN_UNKNOWN)
"""Decide about a model of the catalogue without a Job, which nothing would run here."""
NAMES = (
    "infd_api_requests_total",
    "infd_event_to_apply_seconds_bucket",
    "infd_reconcile_total",
    "infd_resources",
    "infd_workqueue_depth",
)
"""The metrics that benches read, many times a second."""
KIB_PER_MIB = 1024
LAST_LINES = 50
"""Of the log of an operator during which the bench failed."""
TICKS = os.sysconf("SC_CLK_TCK")


class MeasuredOperator(OperatorProcess):
    """A process of the operator, its metrics, and its CPU and memory from `/proc`."""

    def read(self) -> Metrics:
        """Its own metrics, without those of each resource: a page of 1,000 resources takes 0.2 s of its CPU."""
        return Metrics.of(self.metrics(NAMES))

    def peak_mib(self) -> float:
        """Peak memory of its process (`VmHWM`)."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / KIB_PER_MIB

    def cpu_seconds(self) -> float:
        """User and system CPU time of its process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def running(
    cluster: LocalCluster, folder: Path, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[MeasuredOperator]:
    """An operator with these settings too that runs inside the `with` block and logs into the folder."""
    settings = {"LOG_FORMAT": "text", "LEASE_NAMESPACE": "default", "MODEL_INSPECTION": SETTINGS.model_inspection}
    process = MeasuredOperator(cluster.kubeconfig, folder / "operator.log", {**settings, **more}, forked=False)
    process.start()
    try:
        yield process
    except BaseException:
        print(*process.log().splitlines()[-LAST_LINES:], sep="\n", file=sys.stderr)
        raise
    finally:
        process.stop()
