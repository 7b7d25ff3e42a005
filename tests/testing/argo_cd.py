"""Argo CD's own code on a cluster: how it syncs manifests, and what it would show as OutOfSync."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from e2e.deploy import manifests
from e2e.go_modules import ensure_argo_cd
from e2e.localkube.handle import LocalCluster
from inference_operator.manifest import Manifest

LIMIT_SECONDS = 240
"""Longer than the limit of one sync."""


def sync(cluster: LocalCluster, objects: Sequence[Manifest]) -> dict[str, str]:
    """Apply objects wave by wave. Of each kind and name that had its turn: `Synced`, or what went wrong."""
    found = _run("sync", cluster, objects)
    return {
        f"{one['kind']}/{one['name']}": one["result"] if one["phase"] in {"Succeeded", "Running"} else one["message"]
        for one in found
    }


def out_of_sync(cluster: LocalCluster, objects: Sequence[Manifest]) -> list[str]:
    """The objects, as kind and name, that Argo CD would show as different from their manifests."""
    found: list[str] = _run("diff", cluster, objects)
    return found


def waved(found: Manifest, wave: int, *options: str) -> Manifest:
    """A manifest with a wave and with options of a sync."""
    noted = {"argocd.argoproj.io/sync-wave": str(wave)}
    if options:
        noted["argocd.argoproj.io/sync-options"] = ",".join(options)
    metadata = found["metadata"]
    return {**found, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **noted}}}


def _run(command: str, cluster: LocalCluster, objects: Sequence[Manifest]) -> Any:  # noqa: ANN401 - any JSON
    done = subprocess.run(
        [ensure_argo_cd(), manifests.ARGO_CD_CONFIG_MAP, command, cluster.kubeconfig],
        input=json.dumps(objects),
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
