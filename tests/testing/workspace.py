"""A namespace of a real API server for a test."""

import json
import time
from dataclasses import dataclass
from typing import Any

import yaml

from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.manifest import CHILD_KINDS, INFERENCE_DEPLOYMENT, Kind, Manifest
from tests.testing.reads import KINDS, kind_named, reader

SETTLE_SECONDS = 30
QWEN = {"model": {"source": "hf://Qwen/Qwen3-8B"}}
QUIET_SECONDS = 1.0
"""Long enough for a watch event to reach the operator and for its write to reach the log."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """One namespace of the cluster."""

    cluster: LocalCluster
    namespace: str

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess's own name
        """What kubectl prints, in this namespace."""
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, input=input)

    def get(self, what: str, name: str) -> dict[str, Any]:
        """One object."""
        if kind := kind_named(what):
            found = reader(self.cluster.kubeconfig).one(kind, self.namespace, name)
            if found is None:
                raise ClusterError(f"{what} {self.namespace}/{name} is not there")
            return found
        result: dict[str, Any] = json.loads(self.kubectl("get", what, name, "--output=json"))
        return result

    def all(self, what: str, selector: str) -> list[dict[str, Any]]:
        """The objects that a label selector chooses."""
        return reader(self.cluster.kubeconfig).all(KINDS[what], self.namespace, selector)

    def exists(self, what: str, name: str) -> bool:
        """Whether there is such an object."""
        kind = kind_named(what)
        assert kind is not None, what
        return reader(self.cluster.kubeconfig).one(kind, self.namespace, name) is not None

    def create(self, name: str, spec: dict[str, Any], *, user: str = "") -> None:
        """Apply an InferenceDeployment, as an administrator or as a user."""
        read = reader(self.cluster.kubeconfig)
        read.apply(INFERENCE_DEPLOYMENT, self.namespace, resource(name, spec), user=user)

    def refusal(self, name: str, spec: dict[str, Any]) -> str:
        """Why the API server refuses an InferenceDeployment."""
        try:
            self.create(name, spec)
        except ClusterError as error:
            return str(error)
        raise AssertionError(f"{name} with {spec} was accepted")

    def patch(self, name: str, spec: dict[str, Any], *, user: str = "") -> None:
        """Change the spec of an InferenceDeployment, as an administrator or as a user."""
        read = reader(self.cluster.kubeconfig)
        read.patch(INFERENCE_DEPLOYMENT, self.namespace, name, {"spec": spec}, user=user)

    def children(self, name: str) -> set[str]:
        """The children of an InferenceDeployment, as `kind/name`."""
        return {_printed(kind, child["metadata"]["name"]) for kind, child in self._children(name)}

    def _children(self, name: str) -> list[tuple[Kind, dict[str, Any]]]:
        read, selector = reader(self.cluster.kubeconfig), f"inference-operator.dev/name={name}"
        return [(kind, child) for kind in CHILD_KINDS for child in read.all(kind, self.namespace, selector)]

    def owners(self, name: str) -> set[str]:
        """The uids of the owners of its children."""
        return {one["uid"] for _, child in self._children(name) for one in child["metadata"]["ownerReferences"]}

    def replicas(self, name: str) -> int:
        """How many engines its Deployment asks for."""
        found: int = self.get("deployment", f"{name}-engine")["spec"]["replicas"]
        return found

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition, empty while it has not been written."""
        conditions = self.get("infd", name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def settled(
        self, name: str, kind: str = "Ready", status: str = "True", reason: str | None = None, saying: str = ""
    ) -> dict[str, Any]:
        """Wait for a condition about the latest spec; returns it.

        `saying` is a part of its message. A message that depends on other objects, such as nodes,
        can change after the first one: the operator hears of each kind by a watch of its own.
        """

        def look() -> dict[str, Any] | None:
            resource = self.get("infd", name)
            found = self.condition(name, kind)
            current = found.get("observedGeneration") == resource["metadata"]["generation"]
            right = found.get("status") == status and reason in {None, found.get("reason")}
            return found if current and right and saying in found["message"] else None

        return (
            eventually(
                look, seconds=SETTLE_SECONDS, what=lambda: f"{kind}={status}: {self.get('infd', name).get('status')}"
            )
            or {}
        )

    def versions(self, name: str) -> dict[str, str]:
        """The resourceVersion of every child's specification: its generation, or its version where it has none."""
        return {
            f"{kind.name}/{child['metadata']['name']}": str(
                child["metadata"].get("generation", child["metadata"]["resourceVersion"])
            )
            for kind, child in self._children(name)
        }


def _printed(kind: Kind, name: str) -> str:
    """As `kubectl get --output=name` prints it."""
    group = kind.api_version.rpartition("/")[0]
    return f"{kind.name.lower()}{'.' if group else ''}{group}/{name}"


def manifest(name: str, spec: dict[str, Any]) -> str:
    """An InferenceDeployment as a user writes it."""
    return yaml.safe_dump(resource(name, spec))


def resource(name: str, spec: dict[str, Any]) -> Manifest:
    """The same as an object."""
    return {
        "apiVersion": INFERENCE_DEPLOYMENT.api_version,
        "kind": INFERENCE_DEPLOYMENT.name,
        "metadata": {"name": name},
        "spec": spec,
    }


def served(workspace: Workspace) -> Workspace:
    """The workspace, in which `qwen` serves and nothing is left to do."""
    workspace.create("qwen", QWEN)
    workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    time.sleep(QUIET_SECONDS)
    return workspace
