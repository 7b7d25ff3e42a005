"""Findings about the platform: storage, admission, the network, DNS, metrics."""

import re
from collections.abc import Iterator, Mapping, Sequence

from inference_operator.cli.doctor import kinds
from inference_operator.cli.doctor.facts import ClusterFacts, Finding, Health, Unseen, labels_of, name_of, unseen
from inference_operator.manifest import INFERENCE_DEPLOYMENT, NODE, SCALED_OBJECT, STATEFUL_SET, Manifest
from inference_operator.settings import PREFIX, Settings
from inference_operator.views.node_fit import matches_expression
from inference_operator.views.raw import annotations, condition, mapping, objects

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ENFORCED = "pod-security.kubernetes.io/enforce"
SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})
"""The operator's policies refuse child objects there (docs/how-to/operate.md)."""
ENFORCING = {
    "cilium": "Cilium",
    "calico-node": "Calico",
    "canal": "Canal",
    "antrea-agent": "Antrea",
    "kube-router": "kube-router",
    "weave-net": "Weave Net",
    "ovnkube-node": "OVN-Kubernetes",
    "kube-ovn-cni": "Kube-OVN",
    "anetd": "GKE Dataplane V2",
    "azure-npm": "Azure Network Policy Manager",
}
"""DaemonSets of networks that enforce NetworkPolicies (Kubernetes documentation of 1.36, "Cluster networking" and
"Installing addons")."""
NOT_ENFORCING = {"kube-flannel-ds": "Flannel", "kube-flannel": "Flannel"}
"""Flannel has no NetworkPolicies (flannel-io/flannel v0.28, README)."""
MAYBE = {"aws-node": "the Amazon VPC CNI", "kindnet": "kindnet"}
"""Networks that enforce them in some versions or settings only."""
DNS_MARGIN_SECONDS = 5
"""For the way from the kubelet to the DNS server (docs/how-to/platforms.md, DNS)."""
COREDNS_TTL_SECONDS = 5
"""Of cluster records without the option `ttl` (CoreDNS 1.13, `plugin/kubernetes/README.md`)."""
PROMETHEUS, METRICS, EXTERNAL = "monitoring.coreos.com", "metrics.k8s.io", "external.metrics.k8s.io"


def storage(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.of(kinds.STORAGE_CLASS)
    yield from unseen("Storage", found)
    if isinstance(found, Unseen):
        return
    default = [name_of(one) for one in found if annotations(one).get(DEFAULT_CLASS) == "true"]
    if default:
        yield Finding("Storage", Health.GOOD, f"The default StorageClass is `{default[0]}`.")
    else:
        cure = "Mark one as default, or name one in `spec.cache.storageClassName`."
        yield Finding("Storage", Health.NOTE, "No StorageClass is the default, and `spec.cache` needs one.", cure)


def pod_security(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.namespace in SYSTEM_NAMESPACES:
        message = f"The operator creates nothing in `{facts.namespace}`."
        yield Finding("Namespace", Health.BAD, message, "Use another namespace.")
    found = facts.of(kinds.NAMESPACE)
    yield from unseen("Pod Security", found)
    for one in facts.seen(kinds.NAMESPACE):
        level = labels_of(one).get(ENFORCED) or "none"
        message = f"Level {level} of `{facts.namespace}`: pods of the operator meet the level restricted."
        yield Finding("Pod Security", Health.GOOD, message)
    if not isinstance(found, Unseen) and not found:
        cure = f"kubectl create namespace {facts.namespace}"
        yield Finding("Namespace", Health.BAD, f"The namespace `{facts.namespace}` does not exist.", cure)


def admission(facts: ClusterFacts) -> Iterator[Finding]:
    """The findings about what may refuse pods: a trial, then webhooks and policies that must answer."""
    if isinstance(facts.trial, Unseen):
        yield Finding("Admission", Health.UNKNOWN, f"No pod was sent to be checked: {facts.trial.right}.")
    elif facts.trial:
        cures = (cure.format(facts.namespace) for text, cure in REFUSALS.items() if re.search(text, facts.trial))
        cure = next(cures, "Exempt the namespace, or have the policy accept restricted pods of this operator.")
        yield Finding("Admission", Health.BAD, f"A pod as of an engine is refused: {facts.trial}", cure)
    else:
        yield Finding("Admission", Health.GOOD, "The API server would accept a pod as of an engine (dry run).")
    for kind in kinds.WEBHOOKS:
        yield from unseen("Webhooks", facts.of(kind))
        for one in facts.seen(kind):
            yield from (_webhook(facts, one, hook) for hook in objects(one, "webhooks") if _stops_pods(facts, hook))
    policies = [
        one
        for one in facts.seen(kinds.ADMISSION_POLICY)
        if _covers_pods(mapping(one, "spec", "matchConstraints"), "resourceRules")
    ]
    if strict := [name_of(one) for one in policies if mapping(one, "spec").get("failurePolicy") != "Ignore"]:
        yield Finding("Policies", Health.NOTE, f"Policies that may refuse pods: {', '.join(sorted(strict))}.")


REFUSALS: Mapping[str, str] = {
    "exceeded quota: ": "Raise the ResourceQuota, or delete what you do not need: kubectl --namespace {} get quota",
    "must specify ": "Set the limits that it names, of engines in `settings.engineDefaults.limitRequestRatio`, of"
    " routers in `settings.routerDefaults.resources`; or give `{}` a LimitRange with defaults.",
    r"(?:maximum|minimum) \S+ usage per |limit to request ratio per ": "Change the LimitRange: kubectl --namespace {}"
    " get limitrange",
}
"""What a refusal says (Kubernetes 1.36, `limitranger` and `resourcequota` in `plugin/pkg/admission`), and what helps,
with the namespace."""


def _webhook(facts: ClusterFacts, one: Manifest, hook: Manifest) -> Finding:
    service = mapping(hook, "clientConfig", "service")
    place = f"{service.get('namespace')}/{service.get('name')}"
    if service and place in facts.missing_services:
        message = f"{name_of(one)} must answer for each pod, and its Service {place} does not exist."
        return Finding("Webhooks", Health.BAD, message, "Reinstall what it belongs to, or delete the configuration.")
    return Finding("Webhooks", Health.NOTE, f"{name_of(one)} must answer before a pod is created: no answer, no pod.")


def _stops_pods(facts: ClusterFacts, hook: Manifest) -> bool:
    labels = next((labels_of(one) for one in facts.seen(kinds.NAMESPACE)), {})
    selector = mapping(hook, "namespaceSelector")
    return hook.get("failurePolicy") != "Ignore" and _covers_pods(hook, "rules") and selects(selector, labels)


def _covers_pods(parent: Manifest, name: str) -> bool:
    return any(
        {"", "*"} & set(rule.get("apiGroups") or ())
        and {"pods", "*", "*/*", "pods/*"} & set(rule.get("resources") or ())
        and {"CREATE", "*"} & set(rule.get("operations") or ())
        for rule in objects(parent, name)
    )


def selects(selector: Manifest, labels: Manifest) -> bool:
    """Whether a label selector of Kubernetes selects these labels.

    Examples:
        >>> selects({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}, {"a": "x"})
        False
        >>> selects({}, {}), selects({"matchLabels": {"a": "x"}}, {"a": "x"})
        (True, True)
    """
    if any(labels.get(key) != value for key, value in mapping(selector, "matchLabels").items()):
        return False
    return all(matches_expression(labels, one) for one in objects(selector, "matchExpressions"))


def network_policies(facts: ClusterFacts) -> Iterator[Finding]:
    enabled, groups = facts.settings.get(f"{PREFIX}NETWORK_POLICIES") == "true", facts.leftovers.get(STATEFUL_SET, ())
    why = "every pod reaches the ports between the pods of engines over several nodes, which load pickled objects."
    needed = why if groups and not isinstance(groups, Unseen) else ""
    found = facts.of(kinds.DAEMON_SET)
    names = {name_of(one) for one in facts.seen(kinds.DAEMON_SET)}
    kubelets = [str(mapping(one, "status", "nodeInfo").get("kubeletVersion")) for one in facts.seen(NODE)]
    k3s = any("+k3s" in kubelet or "+rke2" in kubelet for kubelet in kubelets)
    if name := next((title for key, title in ENFORCING.items() if key in names), "k3s" if k3s else ""):
        yield Finding("NetworkPolicies", Health.GOOD, f"{name} enforces them.")
    elif name := next((title for key, title in NOT_ENFORCING.items() if key in names), ""):
        health = Health.BAD if enabled or needed else Health.NOTE
        cure = "Use a network that does, or set `networkPolicies.enabled=false`: who is refused is then not refused."
        cure = f"Use a network that does: {needed}" if needed else cure if enabled else ""
        yield Finding("NetworkPolicies", health, f"{name} does not enforce them.", cure)
    elif name := next((title for key, title in MAYBE.items() if key in names), ""):
        yield Finding("NetworkPolicies", Health.UNKNOWN, f"{name} enforces them in some settings only.")
    else:
        why = f": {found.right}" if isinstance(found, Unseen) else ""
        yield Finding("NetworkPolicies", Health.UNKNOWN, f"Whether the network enforces them cannot be known{why}.")


def metrics(facts: ClusterFacts) -> Iterator[Finding]:
    if PROMETHEUS in facts.groups:
        yield Finding("Prometheus", Health.GOOD, f"The CRDs of the Prometheus operator ({PROMETHEUS}) are installed.")
    else:
        message = "The CRDs of the Prometheus operator are not installed. Only dashboards and alerts need a Prometheus."
        yield Finding("Prometheus", Health.NOTE, message, "docs/how-to/monitoring.md")
    broken = {
        str(mapping(one, "spec").get("group"))
        for one in facts.seen(kinds.API_SERVICE)
        if condition(mapping(one, "status"), "Available").get("status") == "False"
    }
    if METRICS in broken:
        cure = f"kubectl describe apiservice v1beta1.{METRICS}"
        yield Finding("Metrics API", Health.BAD, f"{METRICS} is registered and does not answer.", cure)
    elif METRICS in facts.groups:
        yield Finding("Metrics API", Health.GOOD, f"{METRICS} is served.")
    else:
        yield Finding("Metrics API", Health.NOTE, f"{METRICS} is not served. Only `kubectl top` needs it.")
    backends = {str(mapping(one, "spec", "autoscaling").get("backend")) for one in facts.seen(INFERENCE_DEPLOYMENT)}
    for backend, group in (("HPA", EXTERNAL), ("KEDA", SCALED_OBJECT.group)):
        if backend in backends and group not in facts.groups - broken:
            message = f"Resources have `autoscaling.backend: {backend}`, and {group} is not served."
            yield Finding("Autoscaling", Health.BAD, message, "docs/how-to/autoscaling-hpa-keda.md")


def dns(facts: ClusterFacts) -> Iterator[Finding]:
    setting = facts.settings.get(f"{PREFIX}DNS_STALENESS_SECONDS", "")
    staleness = int(setting) if setting.isdecimal() else int(Settings.model_fields["dns_staleness_seconds"].default)
    ttl = facts.probe.dns_ttl_seconds if facts.probe else None
    if ttl is None:
        ttl = corefile_ttl(facts.seen(kinds.COREFILE))
    if ttl is None:
        cure = "infd doctor --cluster asks from a pod; docs/how-to/platforms.md has a table of providers."
        corefile = facts.of(kinds.COREFILE)
        why = corefile.right if isinstance(corefile, Unseen) else "kube-system has no ConfigMap coredns"
        yield Finding("DNS", Health.UNKNOWN, f"The time to live of cluster records is not known: {why}.", cure)
    elif ttl + DNS_MARGIN_SECONDS > staleness:
        message = (
            f"Cluster records live {ttl} s, and `settings.dnsStalenessSeconds` is {staleness}: requests reach engines"
            " that have ended."
        )
        yield Finding("DNS", Health.BAD, message, f"Set `settings.dnsStalenessSeconds={ttl + DNS_MARGIN_SECONDS}`.")
    else:
        message = f"Cluster records live {ttl} s; `settings.dnsStalenessSeconds` is {staleness}."
        yield Finding("DNS", Health.GOOD, message)


def corefile_ttl(found: Sequence[Manifest]) -> int | None:
    r"""The time to live of cluster records by CoreDNS' configuration; None if it tells none.

    Examples:
        >>> corefile_ttl([{"data": {"Corefile": "kubernetes cluster.local {\n ttl 30\n}"}}]), corefile_ttl([])
        (30, None)
    """
    texts = [str(mapping(one, "data").get("Corefile") or "") for one in found]
    block = next((part for text in texts if (part := re.search(r"\bkubernetes\b[^{\n]*(\{[^}]*\})?", text))), None)
    if block is None:
        return None
    ttl = re.search(r"\bttl\s+(\d{1,5})\b", block[0])
    return int(ttl[1]) if ttl else COREDNS_TTL_SECONDS
