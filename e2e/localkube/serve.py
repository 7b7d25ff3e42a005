"""The process that is a running cluster: `python -m e2e.localkube.serve NAME`, started by `up` and by nobody else."""

import sys
from pathlib import Path

from e2e.localkube import control_plane, kwok, node
from e2e.localkube.binaries import Level
from e2e.localkube.control_plane import LOOPBACK, ControlPlane
from e2e.localkube.errors import ClusterError
from e2e.localkube.network import Subnets
from e2e.localkube.ports import ports
from e2e.localkube.state import Record, layout, read_record
from e2e.localkube.supervisor import READY, START, Deserted, Supervisor


def plane(record: Record) -> ControlPlane:
    """The control plane of a recorded cluster."""
    subnets = record.subnets if record.level is Level.NODE else (Subnets(0),)
    return ControlPlane(
        layout=layout(record.name),
        binaries=Path(record.binaries),
        host=str(subnets[0].inside) if record.level is Level.NODE else LOOPBACK,
        ports=ports(record.slot),
        services=tuple(one.services for one in subnets),
    )


def main(name: str) -> int:
    """Run the cluster of this name until it is ended."""
    record = read_record(name)
    if record is None:
        print(f"no cluster {name} is recorded", file=sys.stderr)
        return 1
    where = layout(name)
    supervisor = Supervisor(where)
    try:
        supervisor.expect(START)
        _start(supervisor, record)
        supervisor.report(READY)
        supervisor.watch()
    except Deserted:
        return 0
    except ClusterError as error:
        where.failure.write_text(str(error))
    finally:
        supervisor.end()
    return 1


def _start(supervisor: Supervisor, record: Record) -> None:
    cluster, subnets, has_node = plane(record), record.subnets, record.level is Level.NODE
    if has_node:
        node.prepare_namespaces(cluster)
    supervisor.start(control_plane.etcd(cluster), *([node.containerd(cluster)] if has_node else []))
    supervisor.start(control_plane.api_server(cluster))
    supervisor.start(
        control_plane.controller_manager(cluster),
        control_plane.scheduler(cluster),
        *([kwok.kwok(cluster)] if record.gpu_nodes else []),
        *([node.kubelet(cluster, subnets), node.kube_proxy(cluster, subnets)] if has_node else []),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
