"""The command line: `python -m e2e.localkube up|down|status|kubeconfig|env|load-image`."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from e2e.localkube import existing, kind, local
from e2e.localkube.binaries import Level, ensure_command
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster, LocalCluster
from e2e.localkube.network import IpFamily
from e2e.localkube.progress import say
from e2e.localkube.providers import provider
from e2e.localkube.state import Record, layout, read_record, records

_INTERRUPTED = 130
"""The status that shells give to a command ended by Ctrl-C (128 + SIGINT)."""


def main(arguments: Sequence[str]) -> int:
    """Run one command; what is wrong is said in one message, and the status is 1."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return _INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.localkube", description="Kubernetes for tests and demos.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], None], summary: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=summary, description=summary)
        added.add_argument("--name", default=local.DEFAULT_NAME, help="the cluster (default: %(default)s)")
        added.set_defaults(command=command)
        return added

    start = add("up", _up, "Start a cluster, or find it running.")
    start.add_argument("--level", type=Level, choices=list(Level), default=Level.CONTROL_PLANE)
    start.add_argument("--provider", choices=[local.PROVIDER, kind.PROVIDER, existing.PROVIDER], default=local.PROVIDER)
    start.add_argument("--context", default="", help="with --provider existing: the kubectl context to use")
    start.add_argument("--node-image", default="", help="with --provider kind: the image of the node")
    start.add_argument("--gpu-nodes", type=int, metavar="K", help="nodes with 8 GPUs that exist in the API only")
    start.add_argument(
        "--ip-family",
        type=IpFamily,
        choices=list(IpFamily),
        default=IpFamily.IPV4,
        help="addresses of the node, of pods and of Services (default: %(default)s)",
    )
    end = add("down", _down, "End a cluster and remove what it left; without an error if there is none.")
    end.add_argument("--purge", action="store_true", help="remove the node's image store too")
    add("kubeconfig", _kubeconfig, "Print the path of the cluster's kubeconfig.")
    add("env", _env, "Print `export` lines for a shell: PATH with kubectl and helm, and KUBECONFIG.")
    load = add("load-image", _load_image, "Make images available to the cluster's pods.")
    load.add_argument("archive", nargs="+", help="an OCI or Docker archive, or - for standard input")
    status = commands.add_parser("status", help="Show every cluster and where its files are.")
    status.set_defaults(command=_status)
    return parser


def _up(options: argparse.Namespace) -> None:
    if options.context and options.provider != existing.PROVIDER:
        raise ClusterError("--context names somebody's cluster: use it with --provider existing")
    if options.node_image and options.provider != kind.PROVIDER:
        raise ClusterError("--node-image is the image of kind's node: use it with --provider kind")
    record = replace(
        Record(options.name, options.provider, level=options.level, context=options.context),
        ip_family=options.ip_family,
    )
    found = read_record(options.name)
    if found is not None and found.provider != options.provider:
        raise ClusterError(
            f"{options.name} is bound to provider {found.provider}: "
            f"run `python -m e2e.localkube down --name {options.name}` first, or choose another --name"
        )
    cluster = provider(record, gpu_nodes=options.gpu_nodes, node_image=options.node_image).up()
    say(f"cluster {cluster.name} is ready at {cluster.server}")
    print(cluster.kubeconfig)


def _down(options: argparse.Namespace) -> None:
    record = read_record(options.name) or Record(options.name, local.PROVIDER)
    provider(record).down(purge=options.purge)


def _status(_options: argparse.Namespace) -> None:
    for record in records():
        found = provider(record)
        print("\n".join(_description(record, found.handle(), running=found.is_running())))


def _description(record: Record, cluster: Cluster, *, running: bool) -> list[str]:
    where = layout(record.name)
    lines = [
        f"{record.name}: {'running' if running else 'stopped'}",
        f"  provider    {record.provider} {record.context}".rstrip(),
        f"  server      {cluster.server}",
        f"  kubeconfig  {cluster.kubeconfig}",
    ]
    if isinstance(cluster, LocalCluster):
        lines += [
            f"  level       {cluster.level}, {record.gpu_nodes} GPU nodes, {record.ip_family}",
            f"  audit log   {cluster.audit_log}",
            f"  logs        {where.log('*')}",
        ]
        if cluster.level is Level.NODE:
            lines.append(f"  volumes     {cluster.volumes} (the same path inside the node)")
        if where.failure.exists():
            lines.append(f"  failure     {where.failure.read_text()}")
    return lines


def _kubeconfig(options: argparse.Namespace) -> None:
    print(_recorded(options.name).kubeconfig)


def _env(options: argparse.Namespace) -> None:
    folder = shlex.quote(str(ensure_command("kubectl").parent))
    print(f'export PATH={folder}{os.pathsep}"$PATH"')
    print(f"export KUBECONFIG={shlex.quote(str(_recorded(options.name).kubeconfig))}")


def _load_image(options: argparse.Namespace) -> None:
    record = read_record(options.name)
    if record is None:
        raise _unknown(options.name)
    for archive in options.archive:
        if archive == "-":
            print("\n".join(provider(record).load_image(sys.stdin.buffer)))
            continue
        try:
            with Path(archive).open("rb") as stream:
                print("\n".join(provider(record).load_image(stream)))
        except OSError as error:
            raise ClusterError(f"the archive {archive} cannot be read: {error.strerror}") from error


def _recorded(name: str) -> Cluster:
    record = read_record(name)
    if record is None:
        raise _unknown(name)
    return provider(record).handle()


def _unknown(name: str) -> ClusterError:
    return ClusterError(f"there is no cluster {name}: start it with `python -m e2e.localkube up --name {name}`")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
