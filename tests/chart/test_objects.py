import json
import re
from pathlib import Path

import pytest
import yaml

from generators import chart_values
from inference_operator.admission.operator_policy import OperatorAccount, operator_policies
from inference_operator.admission.writer_policy import writer_policies
from inference_operator.api.pod_defaults import EngineDefaults, RouterDefaults
from inference_operator.api.prometheus import PrometheusSettings
from inference_operator.api.spec import Spec
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import Manifest
from inference_operator.settings import PodUsers, Settings
from tests.chart.helm import CHART, CRDS_CHART, NAMESPACE, RELEASE, REPOSITORY, Helm
from tests.testing.schemas import validate

PREFIX = "INFERENCE_OPERATOR_"
UNSTEADY = re.compile(r"\b(lookup|rand\w+|gen\w+Cert|genCA|now|uuidv4)\b")
LABEL_LENGTH = 63
DIGEST = "sha256:" + "0123456789abcdef" * 4

UNLABELLED = {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
"""Generated files, which the chart contains unchanged."""

AFFINITY = (
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
)

SHAPES = {
    "defaults": (),
    "network policies": (
        "networkPolicies.enabled=true",
        "networkPolicies.metricsFrom.kubernetes\\.io/metadata\\.name=monitoring",
        "networkPolicies.metricsFrom.team=sre",
    ),
    "stock images": ("images=Stock", f"stock.sha256={'0123456789abcdef' * 4}"),
    "two namespaces": ("scope.namespaces={team-a,team-b}",),
    "images pulled before": (
        "prePull.enabled=true",
        "prePull.images={registry.example/vllm:1,registry.example/vllm:2}",
        "prePull.nodeSelector.pool=gpu",
        "prePull.imagePullSecrets[0].name=registry",
        "prePull.priorityClassName=low",
        "prePull.maxUnavailable=2",
    ),
    "everything set": (
        "image.tag=1.2.3",
        f"image.digest={DIGEST}",
        f"router.image.digest={DIGEST}",
        "imagePullSecrets[0].name=registry",
        "serviceAccount.annotations.example\\.com/team=inference",
        "resources.limits.memory=1Gi",
        "podLabels.team=inference",
        "podAnnotations.note=hello",
        "nodeSelector.kubernetes\\.io/arch=amd64",
        "tolerations[0].key=dedicated",
        "tolerations[0].operator=Exists",
        f"{AFFINITY}.key=zone",
        f"{AFFINITY}.operator=Exists",
        "priorityClassName=system-cluster-critical",
        "nameOverride=models",
        "extraEnv[0].name=HTTPS_PROXY",
        "extraEnv[0].value=http://proxy.example:3128",
        "extraVolumes[0].name=ca",
        "extraVolumes[0].configMap.name=ca-bundle",
        "extraVolumeMounts[0].name=ca",
        "extraVolumeMounts[0].mountPath=/etc/ssl/example",
        "extraVolumeMounts[0].readOnly=true",
        "topologySpreadConstraints[0].maxSkew=1",
        "topologySpreadConstraints[0].topologyKey=topology.kubernetes.io/zone",
        "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
        "topologySpreadConstraints[0].labelSelector.matchLabels.app\\.kubernetes\\.io/name=models",
        "priorityAndFairness.create=true",
        "extraObjects[0].apiVersion=v1",
        "extraObjects[0].kind=ConfigMap",
        "extraObjects[0].metadata.name=ca-bundle",
    ),
    "no CRD, no roles, foreign account": (
        "crds.install=false",
        "userRoles.create=false",
        "admissionPolicy.create=false",
        "operatorPolicy.create=false",
        "ownerPolicy.create=false",
        "serviceAccount.create=false",
        "serviceAccount.name=platform",
    ),
}


def oldest_kubernetes() -> str:
    constraint = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    found = re.fullmatch(r">=(\d+\.\d+)\.0-0", constraint)
    assert found
    return found[1]


def operator_container(deployment: Manifest) -> Manifest:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Manifest = container
    return found


def environment(deployment: Manifest) -> dict[str, str]:
    """The settings; `extraEnv` may add variables that are none."""
    variables = operator_container(deployment)["env"]
    return {variable["name"]: variable["value"] for variable in variables if variable["name"].startswith(PREFIX)}


@pytest.mark.parametrize("version", [oldest_kubernetes(), "1.36"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_object_is_valid_for_the_oldest_and_the_tested_kubernetes(helm: Helm, shape: str, version: str) -> None:
    objects = helm.objects(*SHAPES[shape])
    assert objects
    for found in objects:
        validate(found, version)


def test_helm_lint_reports_no_problem(helm: Helm) -> None:
    done = helm.run("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_rendered_manifests_depend_on_the_values_only(helm: Helm) -> None:
    first, second = (helm.run("template", RELEASE, str(CHART)) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    for template in filter(Path.is_file, (CHART / "templates").rglob("*")):
        assert not UNSTEADY.search(template.read_text()), template


def test_the_chart_has_no_hooks_but_a_test(helm: Helm) -> None:
    assert "helm.sh/hook" not in helm.text()
    assert [(one["kind"], one["metadata"]["annotations"]["helm.sh/hook"]) for one in helm.tests()] == [
        ("InferenceDeployment", "test"),
        ("Pod", "test"),
    ]


def test_the_crd_file_of_the_chart_equals_the_generated_crd() -> None:
    generated = REPOSITORY / "crds" / "inferencedeployments.yaml"
    assert (CHART / "files" / "crd.yaml").read_bytes() == generated.read_bytes()


def _definitions(helm: Helm, *sets: str) -> list[Manifest]:
    return [one for one in helm.objects(*sets) if one["kind"] == "CustomResourceDefinition"]


def test_the_rendered_crd_is_complete_and_kept_on_uninstall(helm: Helm) -> None:
    expected = list(yaml.safe_load_all((CHART / "files" / "crd.yaml").read_text()))
    for one in expected:
        assert "annotations" not in one["metadata"]
        one["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    assert _definitions(helm) == expected


def test_the_crd_can_be_deleted_with_the_release(helm: Helm) -> None:
    expected = list(yaml.safe_load_all((CHART / "files" / "crd.yaml").read_text()))
    assert _definitions(helm, "crds.keep=false") == expected


def test_the_chart_can_leave_out_the_crd(helm: Helm) -> None:
    kinds = {found["kind"] for found in helm.objects("crds.install=false")}
    assert "CustomResourceDefinition" not in kinds


def test_the_chart_contains_the_generated_admission_policy_and_can_leave_it_out(helm: Helm) -> None:
    generated = list(yaml.safe_load_all((CHART / "files" / "policy.yaml").read_text()))
    assert generated == writer_policies(ENGINES.option_classes)
    kinds = {found["kind"] for found in generated}
    others = ("operatorPolicy.create=false", "ownerPolicy.create=false")
    rendered = [found for found in helm.objects(*others) if found["kind"] in kinds]
    assert sorted(rendered, key=_kind_and_name) == sorted(generated, key=_kind_and_name)
    assert not kinds & {found["kind"] for found in helm.objects(*others, "admissionPolicy.create=false")}


@pytest.mark.parametrize(
    ("sets", "operator"),
    [
        ((), OperatorAccount(NAMESPACE, RELEASE)),
        (("fullnameOverride=models",), OperatorAccount(NAMESPACE, "models")),
        (("serviceAccount.name=platform",), OperatorAccount(NAMESPACE, RELEASE, "platform")),
        (
            ("settings.engineDefaults.serviceAccountName=a", "settings.routerDefaults.serviceAccountName=b"),
            OperatorAccount(NAMESPACE, RELEASE, pod_accounts=("a", "b")),
        ),
        (
            (
                *(f"settings.prometheus.{one}" for one in ("url=https://p:9092/api", "authModes={bearer,tls}")),
                *(
                    f"settings.prometheus.{one}"
                    for one in ("clusterTriggerAuthentication=thanos", "namespace=Resource")
                ),
            ),
            OperatorAccount(
                NAMESPACE,
                RELEASE,
                prometheus=PrometheusSettings.model_validate(
                    {
                        "url": "https://p:9092/api",
                        "authModes": ["bearer", "tls"],
                        "clusterTriggerAuthentication": "thanos",
                        "namespace": "Resource",
                    }
                ),
            ),
        ),
    ],
)
def test_the_policies_of_the_operators_account_name_its_release_and_the_service_accounts_of_its_settings(
    helm: Helm, sets: tuple[str, ...], operator: OperatorAccount
) -> None:
    kinds = {found["kind"] for found in operator_policies(operator)}
    others = ("admissionPolicy.create=false", "ownerPolicy.create=false")
    rendered = [found for found in helm.objects(*others, *sets) if found["kind"] in kinds]
    assert sorted(rendered, key=_kind_and_name) == sorted(operator_policies(operator), key=_kind_and_name)


def _kind_and_name(one: Manifest) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def test_two_operator_replicas_prefer_different_nodes(helm: Helm) -> None:
    spec = helm.one("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    (term,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["labelSelector"] == spec["selector"]
    budget = helm.one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == spec["selector"]


def test_a_single_operator_replica_has_no_disruption_budget(helm: Helm) -> None:
    assert "PodDisruptionBudget" not in {found["kind"] for found in helm.objects("replicas=1")}


def test_a_configured_affinity_replaces_the_default(helm: Helm) -> None:
    affinity = helm.one("Deployment", f"{AFFINITY}.key=zone", f"{AFFINITY}.operator=Exists")["spec"]["template"]
    assert set(affinity["spec"]["affinity"]) == {"nodeAffinity"}


def test_the_operator_pod_meets_the_restricted_pod_security_profile(helm: Helm) -> None:
    pod = helm.one("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] != 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert operator_container({"spec": {"template": {"spec": pod}}})["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()


def test_the_platform_may_choose_the_user_of_the_operator_pod(helm: Helm) -> None:
    pod = helm.one("Deployment", "settings.podUsers=FromPlatform")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_security_contexts_of_the_operator_pod_are_values(helm: Helm) -> None:
    deployment = helm.one(
        "Deployment",
        "podSecurityContext.runAsUser=1234",
        "podSecurityContext.fsGroup=7",
        "securityContext.capabilities.drop={NET_RAW}",
    )
    pod = deployment["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (1234, 7)
    assert operator_container(deployment)["securityContext"]["capabilities"] == {"drop": ["NET_RAW"]}


def test_a_label_of_the_pod_wins_over_a_common_label_with_its_key_and_is_written_once(helm: Helm) -> None:
    deployment = helm.one("Deployment", "commonLabels.team=all", "podLabels.team=inference")
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "inference"
    labels = deployment["metadata"]["labels"]
    assert labels["team"] == "all"
    text = helm.text("commonLabels.team=all", "podLabels.team=inference")
    assert text.count("team: inference") == 1


def test_common_labels_are_on_every_object_and_pod_of_the_chart(helm: Helm) -> None:
    for found in helm.objects("commonLabels.team=inference"):
        if found["kind"] in UNLABELLED:
            continue
        assert found["metadata"]["labels"]["team"] == "inference", found["kind"]
    assert (
        helm.one("Deployment", "commonLabels.team=inference")["spec"]["template"]["metadata"]["labels"]["team"]
        == "inference"
    )


@pytest.mark.parametrize(
    "label", [r"app\.kubernetes\.io/version=9", r"helm\.sh/chart=mine", "two words=x", "team=two words", "-team=x"]
)
def test_common_labels_that_kubernetes_or_the_chart_cannot_have_are_refused(label: str, helm: Helm) -> None:
    assert "commonLabels" in helm.refusal(f"commonLabels.{label}")


def test_a_long_name_leaves_room_in_every_label(helm: Helm) -> None:
    for found in helm.objects(
        f"nameOverride={'n' * 63}", "prePull.enabled=true", "monitoring.podMonitors.enabled=true"
    ):
        assert max(map(len, found["metadata"].get("labels", {"": ""}).values())) <= LABEL_LENGTH, found["kind"]


def test_every_setting_of_the_operator_is_set_by_the_chart(helm: Helm) -> None:
    names = {name.removeprefix(PREFIX).lower() for name in environment(helm.one("Deployment"))}
    assert names == set(Settings.model_fields)


def test_the_defaults_of_chart_values_equal_those_of_the_operator(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{PREFIX}MODEL_INSPECTION")
    plain = Settings()
    for name, value in environment(helm.one("Deployment")).items():
        monkeypatch.setenv(name, value)
    of_release = {"service_account": Settings().service_account}
    assert Settings() == plain.model_copy(update=of_release)
    assert of_release == {"service_account": "inference-operator"}


def test_chart_values_become_settings_of_the_operator(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = helm.one(
        "Deployment",
        "engine.images.gpu=registry.example/gpu:1",
        "engine.images.cpu=registry.example/cpu:1",
        "router.image.repository=registry.example/router",
        "image.repository=registry.example/operator",
        "image.tag=v3",
        "router.image.tag=v2",
        "settings.clusterDomain=k8s.example",
        "settings.listenAddress=0.0.0.0",
        "settings.dnsStalenessSeconds=40",
        "settings.resyncSeconds=86400",
        "settings.lease.durationSeconds=60",
        "settings.lease.renewDeadlineSeconds=40",
        "settings.lease.renewSeconds=10",
        "settings.writeTimeoutSeconds=15",
        "settings.imagePullPolicy=Never",
        "settings.allowedArguments={--trust-remote-code,--hf-overrides}",
        "settings.allowedEnvironment={VLLM_PLUGINS}",
        "settings.forwardedHeaders={x-tenant,x-acme-*}",
        "settings.podUsers=FromPlatform",
        "commonLabels.team=inference",
        "imageRegistry=mirror.example:5000/hub",
        "settings.engineDefaults.scheduling.tolerations[0].operator=Exists",
        "settings.engineDefaults.limitRequestRatio.memory=2",
        "settings.routerDefaults.resources.limits.cpu=1",
        "settings.routerDefaults.imagePullSecrets[0].name=registry",
        "settings.readLogs=false",
        "settings.logFormat=text",
        "scope.namespaces={team-a,team-b}",
    )
    assert operator_container(deployment)["image"] == "mirror.example:5000/hub/operator:v3"
    for name, value in environment(deployment).items():
        monkeypatch.setenv(name, value)
    assert Settings() == Settings(
        gpu_engine_image="registry.example/gpu:1",
        cpu_engine_image="registry.example/cpu:1",
        operator_image="registry.example/operator:v3",
        router_image="registry.example/router:v2",
        image_registry="mirror.example:5000/hub",
        pod_users=PodUsers.FROM_PLATFORM,
        common_labels={"team": "inference"},
        engine_defaults=EngineDefaults.model_validate(
            {"scheduling": {"tolerations": [{"operator": "Exists"}]}, "limitRequestRatio": {"memory": 2}}
        ),
        router_defaults=RouterDefaults.model_validate(
            {"resources": {"limits": {"cpu": 1}}, "imagePullSecrets": [{"name": "registry"}]}
        ),
        cluster_domain="k8s.example",
        listen_address="0.0.0.0",  # noqa: S104 - in pods
        dns_staleness_seconds=40,
        resync_seconds=86_400,
        lease_duration_seconds=60,
        lease_renew_deadline_seconds=40,
        lease_renew_seconds=10,
        write_timeout_seconds=15,
        image_pull_policy="Never",
        allowed_arguments=("--trust-remote-code", "--hf-overrides"),
        allowed_environment=("VLLM_PLUGINS",),
        forwarded_headers=("x-tenant", "x-acme-*"),
        read_logs=False,
        log_format="text",
        namespaces=("team-a", "team-b"),
    )


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ((), "ghcr.io/inference-operator/operator:0.1.0"),
        (("image.tag=dev",), "ghcr.io/inference-operator/operator:dev"),
        (("image.repository=localhost/operator", "image.tag=dev"), "localhost/operator:dev"),
        (("image.tag=dev", f"image.digest={DIGEST}"), f"ghcr.io/inference-operator/operator:dev@{DIGEST}"),
    ],
)
def test_the_image_reference_is_built_from_repository_tag_and_digest(
    helm: Helm, sets: tuple[str, ...], expected: str
) -> None:
    assert operator_container(helm.one("Deployment", *sets))["image"] == expected


def test_images_are_pulled_on_nodes_with_gpus_only_if_asked_for(helm: Helm) -> None:
    assert "DaemonSet" not in {found["kind"] for found in helm.objects()}
    found = helm.one("DaemonSet", "prePull.enabled=true", "imageRegistry=mirror.example/hub")
    pod = found["spec"]["template"]["spec"]
    assert [(one["image"], one["command"]) for one in pod["initContainers"]] == [
        ("mirror.example/hub/vllm/vllm-openai:v0.32.0", ["true"])
    ]
    assert pod["containers"][0]["image"].startswith("mirror.example/hub/inference-operator/router:")
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "nvidia.com/gpu" not in str([one["resources"] for one in (*pod["initContainers"], *pod["containers"])])
    selector = found["spec"]["selector"]["matchLabels"]
    assert selector.items() <= found["spec"]["template"]["metadata"]["labels"].items()
    operator = helm.one("Deployment")["spec"]["selector"]["matchLabels"]
    assert not operator.items() <= found["spec"]["template"]["metadata"]["labels"].items()


def test_the_nodes_and_images_that_are_pulled_before_can_be_chosen(helm: Helm) -> None:
    found = helm.one("DaemonSet", *SHAPES["images pulled before"])
    pod = found["spec"]["template"]["spec"]
    assert [one["image"] for one in pod["initContainers"]] == ["registry.example/vllm:1", "registry.example/vllm:2"]
    assert (pod["nodeSelector"], pod["imagePullSecrets"], pod["priorityClassName"]) == (
        {"kubernetes.io/os": "linux", "pool": "gpu"},
        [{"name": "registry"}],
        "low",
    )
    assert found["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 2}


def test_an_existing_service_account_is_used_and_not_created(helm: Helm) -> None:
    objects = helm.objects("serviceAccount.create=false", "serviceAccount.name=platform")
    assert "ServiceAccount" not in {found["kind"] for found in objects}
    (deployment,) = (found for found in objects if found["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "platform"
    (binding,) = (found for found in objects if found["kind"] == "ClusterRoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "platform", "namespace": NAMESPACE}]


@pytest.mark.parametrize("shape", ["defaults", "two namespaces"])
def test_the_notes_show_a_resource_that_the_operator_reads(helm: Helm, shape: str) -> None:
    sets = [flag for value in SHAPES[shape] for flag in ("--set", value)]
    done = helm.run("install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--dry-run=client", *sets)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    shown = re.search(r"<<EOF\n(.*?)\n *EOF", notes, re.DOTALL)
    assert shown
    Spec.model_validate(yaml.safe_load(shown[1])["spec"])
    assert notes.count("kubectl") == 4
    assert "curl localhost:8080/v1/chat/completions" in notes
    assert "infd chat --namespace" in notes
    assert "scope.namespaces" in notes or "the older one acts" in notes


def test_an_engine_is_not_deleted_before_it_gets_no_new_requests(helm: Helm) -> None:
    for no_progress, is_right in (("299", True), ("300", False), ("400", False)):
        done = helm.run("template", RELEASE, str(CHART), "--set", f"settings.noProgressSeconds={no_progress}")
        assert (done.returncode == 0) is is_right
        assert is_right or "settings.noProgressSeconds must be less than settings.stallSeconds" in done.stderr


def test_network_policy_values_of_the_chart_set_rights_and_environment_of_the_operator(helm: Helm) -> None:
    asked = SHAPES["network policies"]
    given = environment(helm.one("Deployment", *asked))
    assert given[f"{PREFIX}NETWORK_POLICIES"] == "true"
    assert given[f"{PREFIX}METRICS_FROM"] == "kubernetes.io/metadata.name=monitoring,team=sre"
    assert given[f"{PREFIX}LEASE_NAMESPACE"] == NAMESPACE
    assert given[f"{PREFIX}NETWORK_POLICIES_WITH_KEYS"] == "true"
    without_policies = ("operatorPolicy.create=false", "networkPolicies.withKeys=false")
    assert "networkpolicies" in helm.text(*asked, *without_policies)
    assert "networkpolicies" not in helm.text(*without_policies).replace("# ", "")


def test_more_variables_volumes_and_spread_constraints_reach_the_operator_pod(helm: Helm) -> None:
    plain = helm.one("Deployment")["spec"]["template"]["spec"]
    asked = [value for value in SHAPES["everything set"] if value.startswith(("extraV", "extraEnv", "topology"))]
    changed = helm.one("Deployment", *asked)["spec"]["template"]["spec"]
    before, after = plain["containers"][0], changed["containers"][0]
    assert after["env"] == [*before["env"], {"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}]
    assert after["volumeMounts"] == [
        *before["volumeMounts"],
        {"name": "ca", "mountPath": "/etc/ssl/example", "readOnly": True},
    ]
    assert changed["volumes"] == [*plain["volumes"], {"name": "ca", "configMap": {"name": "ca-bundle"}}]
    (constraint,) = changed["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "topology.kubernetes.io/zone"
    assert "topologySpreadConstraints" not in plain


@pytest.mark.parametrize(
    ("sets", "deployment", "label"),
    [
        ((), RELEASE, RELEASE),
        (("nameOverride=models",), f"{RELEASE}-models", "models"),
        (("fullnameOverride=models",), "models", RELEASE),
    ],
)
def test_names_of_objects_and_the_selector_follow_the_overrides(
    helm: Helm, sets: tuple[str, ...], deployment: str, label: str
) -> None:
    found = helm.one("Deployment", *sets)
    assert found["metadata"]["name"] == deployment
    assert found["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == label
    assert helm.one("ServiceAccount", *sets)["metadata"]["name"] == deployment
    assert environment(found)[f"{PREFIX}LEASE_NAME"] == deployment
    leases = next(o for o in helm.objects(*sets) if o["kind"] == "Role")["rules"]
    assert [rule["resourceNames"] for rule in leases if "resourceNames" in rule] == [[deployment]]


def test_extra_objects_are_rendered_with_the_names_of_the_release(helm: Helm) -> None:
    text = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-ca"}}'
    done = helm.run("template", RELEASE, str(CHART), "--set-json", f"extraObjects=[{text}, {json.dumps(text)}]")
    assert done.returncode == 0, done.stderr
    objects = [found for found in yaml.safe_load_all(done.stdout) if found]
    names = [found["metadata"]["name"] for found in objects if found["kind"] == "ConfigMap"]
    assert [name for name in names if name != f"{RELEASE}-policy"] == [f"{RELEASE}-ca"] * 2


def test_the_network_policy_of_the_operator_admits_only_readers_of_metrics(helm: Helm) -> None:
    assert "NetworkPolicy" not in {found["kind"] for found in helm.objects()}
    closed = helm.one("NetworkPolicy", "networkPolicies.enabled=true")["spec"]
    assert closed["podSelector"] == helm.one("Deployment")["spec"]["selector"]
    assert (closed["policyTypes"], closed.get("ingress")) == (["Ingress"], None)
    (rule,) = helm.one("NetworkPolicy", *SHAPES["network policies"])["spec"]["ingress"]
    assert rule["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring", "team": "sre"}}}
    ]
    (port,) = rule["ports"]
    ports = operator_container(helm.one("Deployment"))["ports"]
    assert port == {"port": ports[0]["name"], "protocol": "TCP"}


def test_the_readme_of_the_chart_equals_the_page_made_from_the_values_file() -> None:
    assert (CHART / "README.md").read_text() == chart_values.page(), "stale: run `make crd`"


def test_every_chart_value_has_a_description_of_its_own_or_of_its_section() -> None:
    described = {row.path for row in chart_values.values((CHART / "values.yaml").read_text()) if row.meaning}
    rows = [row for row in chart_values.values((CHART / "values.yaml").read_text()) if row.default]
    silent = [row.path for row in rows if not any(row.path == p or row.path.startswith(f"{p}.") for p in described)]
    assert set(silent) <= {"tolerations", "affinity", "podAnnotations", "priorityClassName"}, silent


def test_an_annotation_of_the_owner_replaces_that_of_the_chart(helm: Helm) -> None:
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    escaped = key.replace(".", "\\.")
    assert helm.one("Deployment")["spec"]["template"]["metadata"]["annotations"] == {key: "tmp"}
    own = helm.one("Deployment", f"podAnnotations.{escaped}=tmp\\,cache")
    assert own["spec"]["template"]["metadata"]["annotations"] == {key: "tmp,cache"}


def test_the_chart_of_the_crd_contains_the_same_crd_as_the_chart_of_the_operator(helm: Helm) -> None:
    def rendered(*sets: str) -> list[Manifest]:
        done = helm.run("template", "crds", str(CRDS_CHART), *sets)
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    assert rendered() == _definitions(helm)
    assert rendered("--set=keep=false") == _definitions(helm, "crds.keep=false")
    both = [yaml.safe_load((chart / "Chart.yaml").read_text()) for chart in (CHART, CRDS_CHART)]
    assert len({(one["version"], one["appVersion"], one["kubeVersion"]) for one in both}) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_the_pod_of_helm_test_is_valid_and_is_not_selected_as_an_operator_pod(helm: Helm, shape: str) -> None:
    flags = [flag for value in SHAPES[shape] for flag in ("--set", value)]
    _, pod = helm.tests(*flags)
    validate(pod)
    deployment = helm.one("Deployment", *SHAPES[shape])
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= pod["metadata"]["labels"].items()
    operator = deployment["spec"]["template"]["spec"]
    for field in ("serviceAccountName", "securityContext"):
        assert pod["spec"][field] == operator[field]
    assert pod["spec"]["containers"][0]["image"] == operator["containers"][0]["image"]


def test_helm_test_creates_its_resource_in_a_namespace_that_the_operator_watches(helm: Helm) -> None:
    resource, pod = helm.tests("--set=scope.namespaces={team-a,team-b}")
    assert resource["metadata"]["namespace"] == "team-a"
    assert pod["metadata"]["namespace"] == NAMESPACE
    assert pod["spec"]["containers"][0]["args"][1:3] == ["team-a", resource["metadata"]["name"]]
