"""Three ways to run one vLLM over two pods: this operator, LeaderWorkerSet, and a StatefulSet alone.

All have the same image, the same arguments of vLLM, the same model from a hub, and a volume that lives as long as the
pod for its files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from e2e import images
from e2e.deploy import stack

NAME = "pair"
REPOSITORY = "otters/tiny-llama"
START_SECONDS = 400
"""Limit of a start of two pods of vLLM on two busy cores."""
PIPELINE_ARGS = ('--compilation-config={"mode":2,"backend":"eager"}',)
"""vLLM for CPUs warms a pipeline up only with a compilation mode, and its first request would end it without (0.32.0,
`v1/worker/cpu_model_runner.py`). This backend compiles nothing."""
RESOURCES = {"requests": {"cpu": "250m", "memory": "1500Mi"}, "limits": {"memory": "3Gi"}}
_PORT, _MASTER_PORT = 8000, 29501
_ROLE, _LEADER = "role", "leader"


@dataclass(frozen=True, slots=True)
class Form:
    """One of these ways; all names are those of its objects in the namespace `default`."""

    name: str
    leader: str
    worker: str
    container: str
    """The container of each pod in which vLLM runs."""
    engines: str
    """The Service whose endpoint is the leader."""
    objects: Sequence[Mapping[str, Any]]
    wraps: bool = False
    """Whether the first process of the container is a program around vLLM."""
    needs_controller: bool = False
    """Whether the controller of LeaderWorkerSet must run."""


def pair(name: str = NAME, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The sample over two pods, as an InferenceDeployment."""
    resource: dict[str, Any] = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = name
    spec = resource["spec"]
    args = [one for one in spec["engine"]["args"] if one != "--enforce-eager"]
    spec["engine"]["args"] = [*args, *PIPELINE_ARGS]
    spec["engine"]["env"] = [one for one in spec["engine"]["env"] if one["name"] != "VLLM_ENABLE_V1_MULTIPROCESSING"]
    spec["engine"]["resources"] = RESOURCES
    spec["parallelism"] = {"nodes": 2}
    spec["startupTimeout"] = f"{START_SECONDS}s"
    return {**resource, "spec": {**spec, **more}}


def forms(hub: str) -> tuple[Form, ...]:
    """The three ways.

    Args:
        hub: URL of a hub with `REPOSITORY`.
    """
    return ours(hub), leader_worker_set(hub), stateful_set(hub)


def ours(hub: str) -> Form:
    """An InferenceDeployment with `parallelism.nodes: 2`."""
    resource = pair(model={"source": f"hf://{REPOSITORY}"})
    resource["spec"]["engine"]["env"].append({"name": "HF_ENDPOINT", "value": hub})
    group = f"{NAME}-engine-0"
    return Form("inference-operator", f"{group}-0", f"{group}-1", "engine", f"{NAME}-engines", [resource], wraps=True)


def leader_worker_set(hub: str) -> Form:
    """A LeaderWorkerSet of two pods that begins anew when one of them restarts: its default and vLLM's example."""
    ranks = {"RANK": "$(LWS_WORKER_INDEX)", "LEADER": "$(LWS_LEADER_ADDRESS)"}
    resource = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": 2,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _template(hub, ranks, {_ROLE: _LEADER}, ready=True),
                "workerTemplate": _template(hub, ranks, {}),
            },
        },
    }
    selector = {"leaderworkerset.sigs.k8s.io/name": NAME, _ROLE: _LEADER}
    # The controller makes a headless Service of the resource's name.
    objects = [resource, _service(f"{NAME}-api", selector)]
    return Form(
        "LeaderWorkerSet 0.9.0", f"{NAME}-0", f"{NAME}-0-1", "vllm", f"{NAME}-api", objects, needs_controller=True
    )


def stateful_set(hub: str) -> Form:
    """A StatefulSet of two pods and its headless Service: what Kubernetes has by itself."""
    index = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}}
    ranks = {"RANK": index, "LEADER": f"{NAME}-0.{NAME}"}
    labels = {"app": NAME}
    headless = _service(NAME, labels, clusterIP="None", publishNotReadyAddresses=True)
    resource = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 2,
            "serviceName": NAME,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": _template(hub, ranks, labels, ready=True),
        },
    }
    api = _service(f"{NAME}-api", {**labels, "apps.kubernetes.io/pod-index": "0"})
    return Form("StatefulSet", f"{NAME}-0", f"{NAME}-1", "vllm", f"{NAME}-api", [headless, api, resource])


def _template(hub: str, ranks: Mapping[str, Any], labels: Mapping[str, str], *, ready: bool = False) -> dict[str, Any]:
    """A pod with vLLM. The worker of a StatefulSet has no API, so its readiness is that of no one: it always fails."""
    engine = pair()["spec"]["engine"]
    args = [
        f"--served-model-name={NAME}",
        f"--port={_PORT}",
        "--pipeline-parallel-size=2",
        f"--max-num-seqs={engine['maxNumSeqs']}",
        f"--dtype={engine['dtype']}",
        *engine["args"],
        "--nnodes=2",
        "--node-rank=$RANK",
        "--master-addr=$LEADER",
        f"--master-port={_MASTER_PORT}",
    ]
    quoted = " ".join(one if "$" in one else f"'{one}'" for one in args)
    command = f'[ "$RANK" = 0 ] || headless=--headless; exec vllm serve {REPOSITORY} {quoted} $headless'
    given = {"HF_ENDPOINT": hub, "HF_HOME": "/cache", "HOME": "/cache", "OMP_NUM_THREADS": "1", **ranks}
    env = [{"name": name, **(value if isinstance(value, dict) else {"value": value})} for name, value in given.items()]
    env.append({"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    container: dict[str, Any] = {
        "name": "vllm",
        "image": images.reference("engine-cpu"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "env": env,
        "resources": RESOURCES,
        "volumeMounts": [
            {"name": "cache", "mountPath": "/cache"},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - of a container
        ],
    }
    if ready:
        container["readinessProbe"] = {"httpGet": {"path": "/health", "port": _PORT}, "periodSeconds": 2}
    volumes = [{"name": "cache", "emptyDir": {}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}]
    pod = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 10}
    return {"metadata": {"labels": dict(labels)}, "spec": pod}


def _service(name: str, selector: Mapping[str, str], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    spec = {"selector": dict(selector), "ports": [{"name": "http", "port": 80, "targetPort": _PORT}], **more}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def as_list(objects: Sequence[Mapping[str, Any]]) -> str:
    """The objects as one file for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
