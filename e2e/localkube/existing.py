"""A cluster that somebody else runs: reached through a context that the user names, and never any other."""

import json
import subprocess
from contextlib import suppress

from e2e.localkube.binaries import ensure_command
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster
from e2e.localkube.state import Record, exclusive, layout, read_record, write_record

PROVIDER = "existing"


def up(name: str, context: str) -> Cluster:
    """Bind a name to a context of the user's own configuration, if its API server answers."""
    if not context:
        raise ClusterError(
            "an existing cluster is used only through a context named explicitly: add --context CONTEXT "
            "(names: `kubectl config get-contexts`)"
        )
    with exclusive(name):
        found = read_record(name)
        if found is not None and (found.provider, found.context) != (PROVIDER, context):
            bound = f"context {found.context}" if found.context else f"a {found.provider} cluster"
            raise ClusterError(
                f"{name} is bound to {bound}, not to context {context}: "
                f"run `python -m e2e.localkube down --name {name}` first, or choose another --name"
            )
        content = _only(context)
        (server,) = (entry["cluster"]["server"] for entry in json.loads(content)["clusters"])
        record = Record(name, PROVIDER, server=server, context=context)
        write_record(record)
        kubeconfig = layout(name).kubeconfig
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(content)
    cluster = handle(record)
    cluster.kubectl("get", "--raw=/readyz", "--request-timeout=10s")
    return cluster


def down(name: str) -> None:
    """Forget the context; the cluster itself is not ours to touch."""
    with exclusive(name):
        where = layout(name)
        for path in (where.kubeconfig, where.record):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # a local cluster of this name may have left its image store there
            where.directory.rmdir()


def handle(record: Record) -> Cluster:
    """What a user holds of a bound cluster."""
    return Cluster(name=record.name, server=record.server, kubeconfig=layout(record.name).kubeconfig)


def _only(context: str) -> str:
    """The user's client configuration, reduced to this context."""
    kubectl = [str(ensure_command("kubectl")), "config"]
    names = subprocess.run([*kubectl, "get-contexts", "--output=name"], capture_output=True, text=True, check=False)
    if context not in names.stdout.split():
        known = ", ".join(names.stdout.split()) or "none"
        raise ClusterError(f"your kubectl configuration has no context {context}; it has: {known}")
    reduced = subprocess.run(
        [*kubectl, "view", "--minify", "--flatten", f"--context={context}", "--output=json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if reduced.returncode != 0:
        raise ClusterError(f"context {context} cannot be read: {reduced.stderr.strip()}")
    return reduced.stdout
