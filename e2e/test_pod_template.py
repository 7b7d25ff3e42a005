"""Additions to pods on a real node: the kubelet fills variables and volumes, and runs init containers first.

Keys and autoscaling are on, as platforms have them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import images
from e2e.deploy import stack
from e2e.helpers.fake_engines import resource_of_stand_ins
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from inference_operator.admission.operator_policy import ACCOUNTS_ANNOTATION

NAME = "added-to"
ACCOUNT, SECRET, PROXIES, KEYS = "models", "hub", "proxies", "callers"
PYTHON = "/opt/vllm/bin/python"
SAVED = "import os; open('/made/first', 'w').write(os.environ['NODE'] + ' ' + os.environ['HUB_token'])"
"""The program of the init container."""
SEEN = (
    "import json, os, pathlib; files = ['/made/first', '/certificates/ca.crt', '/var/run/secrets/kubernetes.io'];"
    " names = ['NODE', 'HUB_token', 'https_proxy'];"
    " print(json.dumps({**{name: os.environ.get(name) for name in names},"
    " **{path: pathlib.Path(path).read_text() if pathlib.Path(path).is_file() else None for path in files}}))"
)
"""A program that prints variables and files of its container."""
NODE = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
DESCRIBED = 240
"""Characters of a line of `kubectl describe` that nobody has to skip."""
HUB = {"prefix": "HUB_", "secretRef": {"name": SECRET}}


def additions() -> dict[str, Any]:
    return {
        "serviceAccountName": ACCOUNT,
        "imagePullSecrets": [{"name": "registry-that-needs-none"}],
        "envFrom": [HUB, {"configMapRef": {"name": PROXIES}}, {"configMapRef": {"name": "absent", "optional": True}}],
        "volumes": [
            {"name": "made", "emptyDir": {}},
            {"name": "certificates", "secret": {"secretName": SECRET, "items": [{"key": "ca", "path": "ca.crt"}]}},
        ],
        "volumeMounts": [
            {"name": "made", "mountPath": "/made"},
            {"name": "certificates", "mountPath": "/certificates", "readOnly": True},
        ],
        "initContainers": [
            {
                "name": "first",
                "image": images.reference("engine-cpu"),
                "command": [PYTHON, "-c", SAVED],
                "env": [NODE],
                "envFrom": [HUB],
                "volumeMounts": [{"name": "made", "mountPath": "/made"}],
            }
        ],
    }


@pytest.fixture
def served(cluster: LocalCluster) -> Iterator[Served]:
    served = Served(cluster, NAME)
    made = (("serviceaccount", ACCOUNT), ("secret", SECRET), ("configmap", PROXIES), ("secret", KEYS))
    command = [str(Path(sys.executable).with_name("infd")), "key", "create", "me", "--secret", KEYS]
    key = subprocess.run(command, capture_output=True, text=True, check=True)
    served.kubectl("create", "serviceaccount", ACCOUNT)
    served.kubectl("create", "secret", "generic", SECRET, "--from-literal=token=t0", "--from-literal=ca=authority")
    served.kubectl("create", "configmap", PROXIES, "--from-literal=https_proxy=http://proxy.example:3128")
    served.kubectl("apply", "--filename=-", input=key.stdout)
    served.kubectl("annotate", "namespace", served.namespace, f"{ACCOUNTS_ANNOTATION}={ACCOUNT}")
    try:
        yield served
    finally:
        served.kubectl("annotate", "namespace", served.namespace, f"{ACCOUNTS_ANNOTATION}-")
        for kind, name in made:
            served.kubectl("delete", kind, name)


def test_what_a_resource_adds_to_its_pods_is_there_beside_keys_and_autoscaling(served: Served) -> None:
    more = {
        "podTemplate": additions(),
        "engine": {"env": [NODE], "maxNumSeqs": 4},
        "autoscaling": {"minReplicas": 1, "maxReplicas": 2},
    }
    router = {"replicas": 1, "keys": {"secretRef": {"name": KEYS}}, "podTemplate": {"serviceAccountName": ACCOUNT}}
    with resource_of_stand_ins(served, replicas=1, router=router, more=more):
        stack.wait_ready(served.cluster, NAME)
        (engine,), (node,) = served.pods("engine"), nodes(served)
        found = json.loads(served.kubectl("exec", engine, "--container=engine", "--", PYTHON, "-c", SEEN))
        assert found == {
            "NODE": node,
            "HUB_token": "t0",
            "https_proxy": "http://proxy.example:3128",
            "/made/first": f"{node} t0",
            "/certificates/ca.crt": "authority",
            "/var/run/secrets/kubernetes.io": None,
        }
        for component in ("engine", "router"):
            (pod,) = served.pods(component)
            assert served.kubectl("get", "pod", pod, "--output=jsonpath={.spec.serviceAccountName}") == ACCOUNT
        lines = served.kubectl("describe", "deployment", f"{NAME}-engine").splitlines()
        assert max(map(len, lines)) <= DESCRIBED, "describe shows no program"


def nodes(served: Served) -> list[str]:
    return served.kubectl("get", "nodes", "--output=jsonpath={.items[*].metadata.name}").split()
