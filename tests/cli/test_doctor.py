"""`infd doctor`: findings from facts, and the screen at two widths."""

import asyncio
import io
import json
import socketserver
import struct
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from inference_operator import __version__
from inference_operator.admission.rights import Right
from inference_operator.api.crd import crd
from inference_operator.api.model_gateway import MODEL_GATEWAY_API
from inference_operator.cli.doctor import probe_program
from inference_operator.cli.doctor.command import findings, screen
from inference_operator.cli.doctor.facts import (
    OPERATOR_RIGHTS,
    OWN_RIGHTS,
    RESOURCE,
    ClusterFacts,
    Finding,
    Health,
    ProbeResult,
    Unseen,
)
from inference_operator.cli.doctor.kinds import (
    API_SERVICE,
    COREFILE,
    DAEMON_SET,
    DEFINITION,
    LEASE,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    RUNTIME_CLASS,
    STORAGE_CLASS,
    VALIDATING_WEBHOOKS,
)
from inference_operator.cli.doctor.probe import probe_pod, probed, result_of
from inference_operator.controller.cluster import ClusterError
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import (
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    NODE,
    POD,
    STATEFUL_SET,
    Kind,
    Manifest,
)
from tests.testing.golden import GoldenFile

RULES = Path(__file__).parents[2] / "charts" / "inference-operator" / "templates" / "_rules.tpl"
GROUPS = frozenset({"inference-operator.dev", "monitoring.coreos.com", "metrics.k8s.io"})


def named(name: str, namespace: str = "", **parts: object) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    labels, annotations = parts.pop("labels", None), parts.pop("annotations", None)
    beside = {"labels": labels} if labels else {}
    return {"metadata": {**metadata, **beside, **({"annotations": annotations} if annotations else {})}, **parts}


def node(name: str, labels: dict[str, str], gpus: str = "8") -> Manifest:
    status = {"allocatable": {"cpu": "8", **({"nvidia.com/gpu": gpus} if gpus else {})}}
    return named(name, labels=labels, status=status)


H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.present": "true"}
NEW_DRIVER = {**H100, "nvidia.com/cuda.driver-version.major": "580", "nvidia.com/gpu.memory": "81559"}


def operator(**settings: str) -> Manifest:
    env = [{"name": f"INFERENCE_OPERATOR_{name}", "value": value} for name, value in settings.items()]
    template = {"spec": {"containers": [{"name": "operator", "env": env}]}}
    return named(
        "inference-operator",
        "inference-operator-system",
        labels={"app.kubernetes.io/version": __version__},
        spec={"replicas": 2, "template": template},
        status={"readyReplicas": 2},
    )


def facts(changed: dict[Kind, Any] | None = None, **parts: object) -> ClusterFacts:
    """A cluster in which everything is right, with these changes."""
    lists: dict[Kind, Any] = {
        DEFINITION: [crd(), crd(MODEL_GATEWAY_API)],
        DEPLOYMENT: [operator()],
        LEASE: [named("inference-operator", "inference-operator-system", spec={"holderIdentity": "a"})],
        NODE: [node("gpu-1", NEW_DRIVER), node("cpu-1", {}, gpus="")],
        RUNTIME_CLASS: [],
        STORAGE_CLASS: [named("fast", annotations={"storageclass.kubernetes.io/is-default-class": "true"})],
        DAEMON_SET: [named("cilium", "kube-system")],
        NAMESPACE: [named("team-a", labels={"pod-security.kubernetes.io/enforce": "restricted"})],
        VALIDATING_WEBHOOKS: [],
        MUTATING_WEBHOOKS: [],
        API_SERVICE: [],
        COREFILE: [
            named("coredns", "kube-system", data={"Corefile": ".:53 {\n kubernetes cluster.local {\n ttl 30\n }"})
        ],
        POD: [],
        INFERENCE_DEPLOYMENT: [],
    }
    own = dict.fromkeys((right for needed in OWN_RIGHTS.values() for right in needed), True)
    whole: dict[str, Any] = {
        "version": "v1.36.1",
        "groups": GROUPS,
        "lists": {**lists, **(changed or {})},
        "leftovers": {CONFIG_MAP: ()},
        "own_rights": own,
        "operator_rights": dict.fromkeys(OPERATOR_RIGHTS, True),
        "trial": "",
        "probe": ProbeResult(dns_ttl_seconds=30),
    }
    return replace(ClusterFacts("team-a"), **{**whole, **parts})


def of(check: str, found: ClusterFacts) -> list[tuple[str, str]]:
    return [(str(one.health), one.message) for one in findings(found, ENGINES) if one.check == check]


def test_nothing_is_wrong_where_everything_is_right() -> None:
    assert {one.health for one in findings(facts(), ENGINES)} == {Health.GOOD}


ON_CPU = named("cpu", spec={"hardware": {"device": "CPU"}})
POD_HOOK = {
    "rules": [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}],
    "clientConfig": {"service": {"namespace": "gone", "name": "hook"}},
}
OLD_CRD = crd()
del OLD_CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["cache"]
PULL = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "denied"}}, "image": "example.com/a:1"}
UNREACHABLE = {"conditions": [{"type": "ModelResolved", "status": "False", "reason": "HubUnreachable"}]}

WRONG: dict[str, tuple[str, ClusterFacts, str]] = {
    "old Kubernetes": ("Kubernetes", facts(version="v1.30.2"), "needs 1.31 or newer"),
    "no CRD": ("CRD", facts({DEFINITION: []}), "is missing"),
    "CRD not served, unseen": ("CRD", facts({DEFINITION: Unseen("no right")}, groups=frozenset()), "does not serve"),
    "older CRD": ("CRD", facts({DEFINITION: [OLD_CRD]}), "lacks spec.cache"),
    "no operator": ("Operator", facts({DEPLOYMENT: []}), "No Deployment"),
    "operator not ready": ("Operator", facts({DEPLOYMENT: [{**operator(), "status": {}}]}), "None of 2 pods"),
    "no leader": ("Lease", facts({LEASE: []}), "No operator pod holds the Lease"),
    "operator lacks rights": (
        "Its rights",
        facts(operator_rights={Right("patch", "services"): False}),
        "may not in `team-a`: patch services.",
    ),
    "no device plugin": ("Device plugin", facts({NODE: [node("gpu-1", H100, gpus="")]}), "node gpu-1 should have"),
    "no GPUs": (
        "GPUs",
        facts({NODE: [node("cpu-1", {}, gpus="")], INFERENCE_DEPLOYMENT: [ON_CPU, named("b"), named("a", spec={})]}),
        "No node offers GPUs now, and a, b want some.",
    ),
    "no labels": ("GPU labels", facts({NODE: [node("gpu-1", {})]}), "No label names the GPUs of node gpu-1."),
    "old driver": (
        "Driver",
        facts({NODE: [node("gpu-1", {**NEW_DRIVER, "nvidia.com/cuda.driver-version.major": "550"})]}),
        "needs driver 580; node gpu-1 has an older one",
    ),
    "no runtime class": (
        "Runtime class",
        facts({DEPLOYMENT: [operator(ENGINE_DEFAULTS='{"scheduling": {"runtimeClassName": "nvidia"}}')]}),
        "The runtime class `nvidia` that engines name does not exist.",
    ),
    "no namespace": ("Namespace", facts({NAMESPACE: []}), "The namespace `team-a` does not exist."),
    "a system namespace": ("Namespace", replace(facts(), namespace="kube-system"), "creates nothing in `kube-system`"),
    "pods are refused": ("Admission", facts(trial="exceeded quota: none"), "is refused: exceeded quota"),
    "a webhook without a service": (
        "Webhooks",
        facts({VALIDATING_WEBHOOKS: [named("old", webhooks=[POD_HOOK])]}, missing_services=frozenset({"gone/hook"})),
        "its Service gone/hook does not exist",
    ),
    "no image": ("Image pull", facts({POD: [named("a", status={"containerStatuses": [PULL]})]}), "a cannot pull"),
    "no hub": ("Hub", facts({INFERENCE_DEPLOYMENT: [named("a", status=UNREACHABLE)]}, probe=None), "Pods of a do not"),
    "no hub from a pod": ("Hub", facts(probe=ProbeResult(hub_error="timed out")), "does not reach the hub: timed out"),
    "no DNS from a pod": ("DNS from a pod", facts(probe=ProbeResult(dns_error="no answer")), "no Service: no answer"),
    "no pod": ("Pod in the cluster", facts(probe=ProbeResult("quota")), "It did not run: quota"),
    "a long time to live": ("DNS", facts(probe=ProbeResult(dns_ttl_seconds=31)), "live 31 s"),
    "policies that nothing enforces": (
        "NetworkPolicies",
        facts({DAEMON_SET: [named("kube-flannel-ds")], DEPLOYMENT: [operator(NETWORK_POLICIES="true")]}),
        "Flannel does not enforce them",
    ),
    "groups without policies": (
        "NetworkPolicies",
        facts({DAEMON_SET: [named("kube-flannel-ds")]}, leftovers={STATEFUL_SET: [named("a-engine-0")]}),
        "Flannel does not enforce them",
    ),
    "a broken metrics API": (
        "Metrics API",
        facts(
            {
                API_SERVICE: [
                    named(
                        "v1beta1.metrics.k8s.io",
                        spec={"group": "metrics.k8s.io"},
                        status={"conditions": [{"type": "Available", "status": "False"}]},
                    )
                ]
            }
        ),
        "does not answer",
    ),
    "an HPA without metrics": (
        "Autoscaling",
        facts({INFERENCE_DEPLOYMENT: [named("a", spec={"autoscaling": {"backend": "HPA"}})]}),
        "external.metrics.k8s.io is not served",
    ),
}


@pytest.mark.parametrize("situation", WRONG)
def test_what_is_wrong_is_bad_and_has_a_cure(situation: str) -> None:
    check, found, words = WRONG[situation]
    bad = [one for one in findings(found, ENGINES) if one.health is Health.BAD]
    assert [one.check for one in bad] == [check]
    assert words in bad[0].message
    assert bad[0].cure


NOTED: dict[str, tuple[str, ClusterFacts, str]] = {
    "no CRD of gateways": ("CRD", facts({DEFINITION: [crd()]}), "note"),
    "no default StorageClass": ("Storage", facts({STORAGE_CLASS: []}), "note"),
    "no Prometheus": ("Prometheus", facts(groups=GROUPS - {"monitoring.coreos.com"}), "note"),
    "own rights": ("Your rights", facts(own_rights={Right("get", "pods/log"): False}), "note"),
    "no GPUs, and nobody wants any": ("GPUs", facts({NODE: [node("cpu-1", {}, gpus="")]}), "note"),
    "no GPUs, and all on CPUs": ("GPUs", facts({NODE: [], INFERENCE_DEPLOYMENT: [ON_CPU]}), "note"),
    "GPUs to come": ("GPUs", facts({NODE: [], DEPLOYMENT: [operator(GPU_OFFERS="L4:1")]}), "note"),
    "a leftover": ("Leftovers", facts(leftovers={CONFIG_MAP: [named("left", "team-a")]}), "note"),
    "nvidia unused": ("Runtime class", facts({RUNTIME_CLASS: [named("nvidia")]}), "note"),
    "no driver label": ("Driver", facts({NODE: [node("gpu-1", H100)]}), "unknown"),
    "unknown network": ("NetworkPolicies", facts({DAEMON_SET: []}), "unknown"),
    "the VPC CNI": ("NetworkPolicies", facts({DAEMON_SET: [named("aws-node")]}), "unknown"),
    "no Corefile": ("DNS", facts({COREFILE: []}, probe=None), "unknown"),
    "no dry run": ("Admission", facts(trial=Unseen("an admission webhook supports no dry run")), "unknown"),
    "a webhook that answers": ("Webhooks", facts({MUTATING_WEBHOOKS: [named("istio", webhooks=[POD_HOOK])]}), "note"),
}


@pytest.mark.parametrize("situation", NOTED)
def test_what_stops_nothing_is_not_bad(situation: str) -> None:
    check, found, health = NOTED[situation]
    assert [one[0] for one in of(check, found)] == [health]
    assert not [one for one in findings(found, ENGINES) if one.health is Health.BAD]


def test_rights_that_are_missing_name_the_commands_that_need_them() -> None:
    lacks = {Right("create", "pods/portforward"): False, Right("patch", *RESOURCE): False}
    ((_, message),) = of("Your rights", facts(own_rights=lacks))
    assert message.splitlines() == [
        "You lack in `team-a`:",
        "patch inferencedeployments.inference-operator.dev (for run, renew, restart, pause, resume, plan --diff)",
        "create pods/portforward (for chat, bench)",
    ]


def test_no_line_of_missing_rights_is_long() -> None:
    nothing = dict.fromkeys((right for needed in OWN_RIGHTS.values() for right in needed), False)
    (found,) = [one for one in findings(facts(own_rights=nothing), ENGINES) if one.check == "Your rights"]
    assert max(map(len, found.message.splitlines())) <= 110
    assert "list nodes" in found.cure
    assert "pods/proxy" not in found.cure


@pytest.mark.parametrize(
    ("refusal", "cure"),
    [
        ('pods "a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2', "Raise"),
        ('pods "a" is forbidden: failed quota: small: must specify limits.cpu for: doctor', "Set the limits"),
        ('pods "a" is forbidden: maximum memory usage per Container is 64Mi, but limit is 128Mi', "Change the Limit"),
        ('pods "a" is forbidden: violates PodSecurity "restricted:latest": x', "Exempt the namespace"),
        ('admission webhook "a" denied the request: no', "Exempt the namespace"),
    ],
)
def test_the_cure_fits_what_refuses_a_pod(refusal: str, cure: str) -> None:
    (found,) = [one for one in findings(facts(trial=refusal), ENGINES) if one.health is Health.BAD]
    assert found.cure.startswith(cure)


def test_a_webhook_for_other_namespaces_or_that_fails_open_is_not_named() -> None:
    other = {**POD_HOOK, "namespaceSelector": {"matchLabels": {"a": "b"}}}
    hooks = [named("a", webhooks=[other]), named("b", webhooks=[{**POD_HOOK, "failurePolicy": "Ignore"}])]
    assert of("Webhooks", facts({VALIDATING_WEBHOOKS: hooks})) == []


def test_nothing_that_may_be_seen_is_needed() -> None:
    """Every list may be unseen, and the findings say which right is missing."""
    lists = dict.fromkeys(facts().lists, Unseen("the right is missing"))
    blind = ClusterFacts("team-a", groups=GROUPS, lists=lists, leftovers={CONFIG_MAP: Unseen("the right is missing")})
    found = list(findings(blind, ENGINES))
    assert not [one for one in found if one.health is Health.BAD]
    assert sum("the right is missing" in one.message for one in found) >= 8
    assert list(findings(ClusterFacts("team-a", groups=GROUPS), ENGINES))


def printed(found: list[Finding], columns: int, *, with_symbols: bool = True) -> str:
    text = io.StringIO()
    Console(file=text, width=columns, highlight=False).print(screen(found, with_symbols=with_symbols))
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


@pytest.mark.parametrize("columns", [80, 120])
def test_the_screen(columns: int, snapshot: SnapshotAssertion) -> None:
    wrong = facts({STORAGE_CLASS: [], DAEMON_SET: []}, trial="exceeded quota: none", probe=None)
    text = printed(list(findings(wrong, ENGINES)), columns)
    assert max(map(len, text.splitlines())) <= columns
    assert text == snapshot.use_extension(GoldenFile.ending("txt"))


def test_programs_get_words_instead_of_symbols() -> None:
    text = printed(list(findings(facts(version="v1.20.0"), ENGINES)), 200, with_symbols=False)
    assert text.startswith("BAD")
    assert "✔" not in text


def test_a_terminal_gets_a_symbol_and_the_word_that_pages_explain() -> None:
    lines = printed(list(findings(facts(version="v1.20.0", own_rights={}), ENGINES)), 200).splitlines()
    assert (lines[0].split("  ")[0], lines[2].split("  ")[0]) == ("✖ BAD", "✔ ok")
    assert ["?", "Your", "rights"] in [line.split()[:3] for line in lines]
    plain = printed(list(findings(facts(version="v1.20.0", own_rights={}), ENGINES)), 200, with_symbols=False)
    assert plain.splitlines()[0].startswith("BAD ")


def test_findings_are_what_programs_read() -> None:
    json.dumps([asdict(one) for one in findings(facts(), ENGINES)])


def test_the_operators_rights_are_those_of_the_chart() -> None:
    text = "\n".join(line for line in RULES.read_text().splitlines() if "{{" not in line and "*/}}" not in line)
    rules = yaml.safe_load(text[text.index("- apiGroups") :])
    given = {
        Right(verb, plural, group)
        for rule in rules
        for group in rule["apiGroups"]
        for plural in rule["resources"]
        for verb in rule["verbs"]
    }
    assert not [str(right) for right in OPERATOR_RIGHTS if right not in given]


def test_the_pod_is_restricted_has_no_token_and_ends_by_itself() -> None:
    pod = probe_pod(facts({DEPLOYMENT: [operator(OPERATOR_IMAGE="example.com/mine:1")]}), "https://hub.example")
    spec = pod["spec"]
    assert spec["containers"][0]["image"] == "example.com/mine:1"
    assert (spec["automountServiceAccountToken"], spec["restartPolicy"]) == (False, "Never")
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["activeDeadlineSeconds"] > 0
    platform = probe_pod(facts({DEPLOYMENT: [operator(POD_USERS="FromPlatform")]}), "https://hub.example")
    assert "runAsUser" not in platform["spec"]["securityContext"]


def test_a_tenants_deployment_does_not_pose_as_the_operator() -> None:
    fake = operator(OPERATOR_IMAGE="evil.example/a:1", POD_USERS="Nobody")
    fake["metadata"]["namespace"] = "a-tenant"
    own = operator(OPERATOR_IMAGE="example.com/mine:1")
    for found in ([fake, own], [own, fake]):
        assert facts({DEPLOYMENT: found}).operator is own
    pod = probe_pod(facts({DEPLOYMENT: [fake]}), "https://hub.example")
    assert "evil" not in json.dumps(pod)
    assert "runAsUser" in pod["spec"]["securityContext"]


def test_an_operator_of_other_namespaces_is_not_the_one() -> None:
    other = operator(NAMESPACES="team-b")
    assert facts({DEPLOYMENT: [other]}).operator is None
    assert "does not serve the namespace `team-a`" in of("Operator", facts({DEPLOYMENT: [other]}))[0][1]


def test_what_the_pod_says_is_read_and_never_trusted() -> None:
    def ended(message: str) -> ProbeResult | None:
        state = {"terminated": {"message": message}}
        return result_of({"status": {"containerStatuses": [{"state": state}]}})

    told = ended(json.dumps({"dns_error": "", "dns_ttl_seconds": 5, "hub_error": "\x1b[2Jno"}))
    assert told == ProbeResult(dns_ttl_seconds=5, hub_error="�[2Jno")
    for message in ("", "[]", "{}", "\x00", "null"):
        found = ended(message)
        assert found is not None
        assert found.problem == "its program ended without an answer."
    waiting = result_of({"status": {"containerStatuses": [PULL]}})
    assert waiting is not None
    assert waiting.problem == "its image cannot be pulled: denied"


class Broken:
    """An API server that creates a pod and then fails."""

    async def request(self, *_: object, body: Manifest, **__: object) -> Manifest:
        return {**body, "metadata": {**body["metadata"], "uid": "u"}}

    async def get(self, _: object) -> Manifest:
        raise ClusterError("the connection broke\x1b")

    async def delete(self, *_: object, **__: object) -> None:
        raise ClusterError("it timed out")

    @property
    def api(self) -> "Broken":
        return self


def test_a_cluster_that_fails_meanwhile_loses_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    broken: Any = Broken()
    pod = probe_pod(facts(), "https://hub.example")
    found = asyncio.run(probed(broken, pod, 1))
    assert found.problem == "the connection broke\ufffd"
    name = pod["metadata"]["name"]
    assert capsys.readouterr().err == f"The pod team-a/{name} could not be deleted: it timed out. Delete it.\n"


class Dns(socketserver.BaseRequestHandler):
    """Answers each question with one address that lives 17 s."""

    def handle(self) -> None:
        asked, connection = self.request
        head = asked[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
        answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 17, 4) + bytes([10, 0, 0, 1])
        connection.sendto(head + asked[12:] + answer, self.client_address)


def test_the_program_of_the_pod_reads_the_time_to_live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socketserver.UDPServer(("127.0.0.1", 0), Dns) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        (tmp_path / "resolv.conf").write_text("search a\nnameserver 127.0.0.1\n")
        monkeypatch.setattr(probe_program, "DNS_PORT", server.server_address[1])
        monkeypatch.setattr(probe_program, "RESOLVER", tmp_path / "resolv.conf")
        probe_program.main("localhost", "http://127.0.0.1:1", str(tmp_path / "out"))
        server.shutdown()
        thread.join()
    found = json.loads((tmp_path / "out").read_text())
    assert found == {"dns_error": "", "dns_ttl_seconds": 17, "hub_error": "[Errno 111] Connection refused"}


def test_two_releases_that_serve_the_namespace_are_named_and_who_acts() -> None:
    scoped = {**operator(NAMESPACES="team-a,team-b"), "metadata": {"name": "scoped", "namespace": "other"}}
    account = "system:serviceaccount:inference-operator-system:inference-operator"
    resources = [named("qwen", "team-a", status={"operator": {"account": account, "since": "2026-01-01T00:00:00Z"}})]
    both = facts({DEPLOYMENT: [operator(), scoped], INFERENCE_DEPLOYMENT: resources})
    ((health, message),) = of("Releases", both)
    assert health == Health.NOTE
    for words in ("inference-operator-system/inference-operator and other/scoped", account, "`team-a`"):
        assert words in message
    disjoint = {**operator(NAMESPACES="team-b"), "metadata": {"name": "scoped", "namespace": "other"}}
    assert of("Releases", facts({DEPLOYMENT: [operator(), disjoint]})) == []
