"""Shared types: a Kubernetes object as JSON, its kind, its address and its owner."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON."""

GROUP = "inference-operator.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceDeployment"
PLURAL = "inferencedeployments"

ARCHITECTURE_LABEL, SYSTEM_LABEL = "kubernetes.io/arch", "kubernetes.io/os"
"""Node labels of the processor architecture and of the operating system, which each kubelet sets."""


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A kind of Kubernetes object.

    Examples:
        >>> Kind("apps/v1", "Deployment").path("default")
        '/apis/apps/v1/namespaces/default/deployments'
        >>> Kind("v1", "Service").path(None)
        '/api/v1/services'
        >>> NETWORK_POLICY.path(None)
        '/apis/networking.k8s.io/v1/networkpolicies'
        >>> INGRESS.plural, HTTP_ROUTE.plural, MODEL_GATEWAY.plural
        ('ingresses', 'httproutes', 'modelgateways')
    """

    api_version: str
    name: str

    @property
    def plural(self) -> str:
        """The name of the kind in URLs, by English plural rules, which hold for all kinds used here."""
        singular = self.name.lower()
        if singular.endswith("y") and singular[-2] not in "aeou":
            return f"{singular[:-1]}ies"
        return f"{singular}es" if singular.endswith("s") else f"{singular}s"

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """The name of the kind in rights and for `kubectl`, such as `scaledobjects.keda.sh`; not of the core group."""
        return f"{self.plural}.{self.group}"

    @property
    def is_reconciled(self) -> bool:
        """Whether it is a kind of this operator: people write its objects, and the operator makes their children."""
        return self.api_version == API_VERSION

    def path(self, namespace: str | None) -> str:
        root = "/apis" if "/" in self.api_version else "/api"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}/{self.api_version}{within}/{self.plural}"


@lru_cache(maxsize=100)
def _kind(api_version: str, name: str) -> Kind:
    return Kind(api_version, name)


def kind_of(manifest: Manifest) -> Kind:
    """The kind of an object that has apiVersion and kind. It is cached, since thousands of `Ref`s share it."""
    return _kind(manifest["apiVersion"], manifest["kind"])


DEPLOYMENT = Kind("apps/v1", "Deployment")
STATEFUL_SET = Kind("apps/v1", "StatefulSet")
SERVICE = Kind("v1", "Service")
CONFIG_MAP = Kind("v1", "ConfigMap")
SECRET = Kind("v1", "Secret")
DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy")
INGRESS = Kind("networking.k8s.io/v1", "Ingress")
HTTP_ROUTE = Kind("gateway.networking.k8s.io/v1", "HTTPRoute")
INFERENCE_POOL = Kind("inference.networking.k8s.io/v1", "InferencePool")
HORIZONTAL_POD_AUTOSCALER = Kind("autoscaling/v2", "HorizontalPodAutoscaler")
SCALED_OBJECT = Kind("keda.sh/v1alpha1", "ScaledObject")
COSCHEDULING_GROUP = Kind("scheduling.x-k8s.io/v1alpha1", "PodGroup")
VOLCANO_GROUP = Kind("scheduling.volcano.sh/v1beta1", "PodGroup")
JOB = Kind("batch/v1", "Job")
CLAIM = Kind("v1", "PersistentVolumeClaim")
POD = Kind("v1", "Pod")
NODE = Kind("v1", "Node")
INFERENCE_DEPLOYMENT = Kind(API_VERSION, KIND)
MODEL_GATEWAY = Kind(API_VERSION, "ModelGateway")
RESOURCE_KINDS = (INFERENCE_DEPLOYMENT, MODEL_GATEWAY)
"""The kinds of resources that the operator reconciles (`controller/resource_kind.py`)."""

CHILD_KINDS = (
    CLAIM,
    CONFIG_MAP,
    SERVICE,
    DEPLOYMENT,
    STATEFUL_SET,
    DISRUPTION_BUDGET,
    JOB,
    INGRESS,
    HORIZONTAL_POD_AUTOSCALER,
)
"""The kinds of child objects that every cluster has. NetworkPolicies are not listed: the operator has rights on them
only where its settings use them."""

OPTIONAL_KINDS = (HTTP_ROUTE, INFERENCE_POOL, SCALED_OBJECT, COSCHEDULING_GROUP, VOLCANO_GROUP)
"""Kinds of child objects that a cluster has only if their CRD is installed."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The address of a resource that the operator reconciles; the item of the work queue."""

    namespace: str
    name: str
    kind: Kind = field(default=INFERENCE_DEPLOYMENT, hash=False)  # keys are looked up all the time

    @property
    def ref(self) -> "Ref":
        return Ref(self.kind, self.namespace, self.name)

    def __str__(self) -> str:
        """Return `namespace/name`, of another kind than InferenceDeployment after its name."""
        kind = "" if self.kind == INFERENCE_DEPLOYMENT else f"{self.kind.name} "
        return f"{kind}{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """The address of one Kubernetes object.

    Examples:
        >>> str(Ref(SERVICE, "default", "qwen"))
        'Service default/qwen'
    """

    kind: Kind
    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Manifest) -> "Ref":
        """The address of an object that has apiVersion, kind, namespace and name."""
        meta = manifest["metadata"]
        return cls(kind_of(manifest), meta["namespace"], meta["name"])

    @property
    def path(self) -> str:
        return f"{self.kind.path(self.namespace)}/{self.name}"

    def manifest(self, metadata: Manifest, **content: object) -> Manifest:
        named = {"name": self.name, "namespace": self.namespace, **metadata}
        return {"apiVersion": self.kind.api_version, "kind": self.kind.name, "metadata": named, **content}

    def __str__(self) -> str:
        return f"{self.kind.name} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Owner:
    """The resource that owns child objects."""

    key: Key
    uid: str
    child_labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Labels that all its child objects and their pods carry: those of the operator's setting `commonLabels`, and of
    another kind than InferenceDeployment its name."""

    @property
    def reference(self) -> Manifest:
        """The owner reference of a child object, by which the garbage collector deletes it with its owner.

        `blockOwnerDeletion` is false, so that the operator needs no rights on finalizers
        (Kubernetes, admission plugin OwnerReferencesPermissionEnforcement).
        """
        return {
            "apiVersion": self.key.kind.api_version,
            "kind": self.key.kind.name,
            "name": self.key.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }

    def owns(self, manifest: Manifest) -> bool:
        """Whether this owner, by uid, is the controller of the object."""
        return bool(controller_of(manifest).get("uid") == self.uid)


def controller_of(manifest: Manifest) -> Manifest:
    """The owner reference of the object's controller, of which it has at most one; empty without one."""
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), {})
