"""Installs the operator from a checkout on stock images: `python -m e2e.deploy.install [OPTIONS OF HELM]`.

Nothing is built, and no registry of one's own is needed: routers run the official image of HAProxy, the operator and
its Jobs that of Python. The program lies in a ConfigMap (`program.py`). This needs Python's standard library only.
"""

import argparse
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.deploy.program import operator_program
from e2e.images.errors import ImageError
from e2e.localkube.errors import ClusterError

CHART = Path(__file__).parents[2] / "charts" / "inference-operator"
RELEASE, NAMESPACE = "inference-operator", "inference-operator-system"
NAME = "inference-operator-program"
"""The ConfigMaps' names begin with it; the chart adds the first digits of the SHA-256."""
NAME_DIGITS = 12
LABEL = f"inference-operator.dev/component={NAME}"
PROGRAM_FILE = "program.tar.xz"


def main(arguments: Sequence[str]) -> int:
    """Install or upgrade; an error is one message, and the status is 1."""
    parser = argparse.ArgumentParser(prog="python -m e2e.deploy.install", description=__doc__)
    parser.add_argument("--namespace", default=NAMESPACE, help=f"namespace of the operator (default: {NAMESPACE})")
    options, helm_options = parser.parse_known_args(arguments)
    try:
        install(options.namespace, helm_options, os.environ)
    except (ImageError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        f"The operator runs in the namespace {options.namespace}. Next:\n"
        "  kubectl apply --filename manifests/samples/first.yaml\n"
        "  kubectl get infd first --watch"
    )
    return 0


def install(namespace: str, helm_options: Sequence[str], environment: Mapping[str, str]) -> None:
    """Store the program, install or upgrade the chart, and delete the program of the former version.

    Args:
        namespace: of the operator.
        helm_options: options of `helm upgrade` beside its own.
        environment: has PATH with kubectl and Helm, and may name a kubeconfig.
    """

    def run(*command: str, given: str | None = None) -> str:
        return _printed(command, environment, given)

    for name in ("kubectl", "helm"):
        _found(name, environment)
    try:
        context = run("kubectl", "config", "current-context").strip()
    except ClusterError as error:
        raise ClusterError(f"{error}; choose a cluster by `kubectl config use-context`, or set KUBECONFIG") from error
    program = operator_program()
    sha256 = hashlib.sha256(program).hexdigest()
    name = f"{NAME}-{sha256[:NAME_DIGITS]}"
    _say(f"cluster {context}: the program, {len(program) / 2**10:,.0f} KiB, into the ConfigMap {namespace}/{name}")
    run("kubectl", "apply", "--server-side", "--filename=-", given=json.dumps(_objects(namespace, name, program)))
    values = ("--set-string=images=Stock", f"--set-string=stock.sha256={sha256}")
    command = ("helm", "upgrade", "--install", RELEASE, str(CHART), f"--namespace={namespace}", *values)
    _say(f"{' '.join(command[:4])} charts/{CHART.name} {' '.join((*command[5:], *helm_options))}")
    run(*command, "--wait", "--timeout=10m", *helm_options)
    inside = f"--namespace={namespace}"
    programs = run("kubectl", inside, "get", "configmaps", f"--selector={LABEL}", "--output=name").split()
    if former := [one for one in programs if one != f"configmap/{name}"]:
        run("kubectl", inside, "delete", *former)


def _objects(namespace: str, name: str, program: bytes) -> dict[str, object]:
    """The namespace, and the ConfigMap with the program."""
    key, _, value = LABEL.partition("=")
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {key: value}},
        "immutable": True,
        "binaryData": {PROGRAM_FILE: base64.b64encode(program).decode()},
    }
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, config_map]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _say(line: str) -> None:
    print(f"+ {line}", flush=True)


def _found(name: str, environment: Mapping[str, str]) -> str:
    found = shutil.which(name, path=environment.get("PATH"))
    if found is None:
        raise ClusterError(f"{name} is missing on this machine: install it, and put it into a folder of PATH")
    return found


def _printed(command: Sequence[str], environment: Mapping[str, str], given: str | None) -> str:
    """What a command of the user's machine prints; its complaint becomes the error."""
    name, *arguments = command
    answer = subprocess.run(
        [_found(name, environment), *arguments],
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise ClusterError(f"`{name} {arguments[0]} …` failed: {answer.stderr.strip()}")
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
