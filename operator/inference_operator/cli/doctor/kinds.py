"""Kinds of Kubernetes that `infd doctor` reads beside those of the operator's own objects."""

from inference_operator.manifest import CHILD_KINDS, NETWORK_POLICY, NODE, Kind

NAMESPACE = Kind("v1", "Namespace")
RUNTIME_CLASS = Kind("node.k8s.io/v1", "RuntimeClass")
STORAGE_CLASS = Kind("storage.k8s.io/v1", "StorageClass")
DAEMON_SET = Kind("apps/v1", "DaemonSet")
DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
VALIDATING_WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
MUTATING_WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
WEBHOOKS = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
ADMISSION_POLICY = Kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
API_SERVICE = Kind("apiregistration.k8s.io/v1", "APIService")
LEASE = Kind("coordination.k8s.io/v1", "Lease")
COREFILE = Kind("v1", "ConfigMap")
"""The ConfigMap `coredns` of `kube-system`, under a name of its own: others of this kind are children."""
OF_CLUSTER = (NODE, RUNTIME_CLASS, STORAGE_CLASS, DAEMON_SET, DEFINITION, *WEBHOOKS, ADMISSION_POLICY, API_SERVICE)
LABELLED = (*CHILD_KINDS, NETWORK_POLICY)
