import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from inference_operator.manifest import Manifest
from tests.chart.helm import CHART, Helm

VALUES: Manifest = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Manifest = json.loads((CHART / "values.schema.json").read_text())

FREE = {
    "podLabels",
    "podAnnotations",
    "prePull.nodeSelector",
    "prePull.resources.limits",
    "prePull.resources.requests",
    "nodeSelector",
    "serviceAccount.annotations",
    "resources.requests",
    "networkPolicies.metricsFrom",
    "commonLabels",
    "monitoring.podMonitors.labels",
    "monitoring.rules.labels",
    "monitoring.dashboards.labels",
    "monitoring.dashboards.annotations",
    "stock.environment",
}
"""Maps whose keys are the user's; a misspelling there cannot be told from a word."""
KUBERNETES_CHECKS = {
    "global",
    "affinity.nodeAffinity",
    "affinity.podAffinity",
    "affinity.podAntiAffinity",
    "extraEnv[].valueFrom",
    "extraVolumes[]",
    "extraVolumeMounts[]",
    "topologySpreadConstraints[]",
    "settings.engineDefaults.network",
    *(
        f"settings.{pods}.{part}"
        for pods in ("engineDefaults", "routerDefaults")
        for part in ("scheduling", "podTemplate", "env[]")
    ),
}
"""Objects whose inside is Kubernetes', Helm's or the operator's to check."""


def sections(values: Manifest, path: str = "") -> Iterator[str]:
    yield path
    for name, value in values.items():
        if isinstance(value, dict):
            yield from sections(value, f"{path}.{name}".lstrip("."))


def open_objects(schema: Manifest, path: str = "") -> Iterator[str]:
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from open_objects(inner, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from open_objects(schema["items"], f"{path}[]")


@pytest.mark.parametrize("section", sorted(set(sections(VALUES)) - FREE))
def test_a_misspelt_chart_value_is_refused_with_its_name(helm: Helm, section: str) -> None:
    assert "'misspelt' not allowed" in helm.refusal(f"{section}.misspelt=1".lstrip("."))


def test_every_object_of_the_values_schema_refuses_unknown_keys() -> None:
    assert set(open_objects(SCHEMA)) == KUBERNETES_CHECKS


def test_values_schema_and_values_file_have_the_same_keys() -> None:
    assert set(SCHEMA["properties"]) - {"global", "enabled"} == set(VALUES)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ("settings.logFormat=xml", "/settings/logFormat"),
        ("settings.dnsStalenessSeconds=0", "/settings/dnsStalenessSeconds"),
        ("settings.allowedArguments={trust-remote-code}", "/settings/allowedArguments/0"),
        ("settings.allowedEnvironment={A-B}", "/settings/allowedEnvironment/0"),
        ("settings.forwardedHeaders={x y}", "/settings/forwardedHeaders/0"),
        ("settings.readLogs=maybe", "/settings/readLogs"),
        ("settings.prometheus.url=https://user:pass@prometheus.example", "/settings/prometheus/url"),
        ("settings.prometheus.url=http://p' || true || '", "/settings/prometheus/url"),
        ("settings.prometheus.namespace=team-a", "/settings/prometheus/namespace"),
        ("settings.prometheus.authModes={bearer}", "/settings/prometheus/clusterTriggerAuthentication"),
        ("settings.dnsStalenessSeconds=soon", "/settings/dnsStalenessSeconds"),
        ("settings.clusterDomain=Cluster.Local", "/settings/clusterDomain"),
        ("settings.imagePullPolicy=Sometimes", "/settings/imagePullPolicy"),
        ("image.digest=sha256:123", "/image/digest"),
        ("settings.lease.durationSeconds=1", "/settings/lease/durationSeconds"),
        ("settings.lease.renewSeconds=0", "/settings/lease/renewSeconds"),
        ("settings.writeTimeoutSeconds=0", "/settings/writeTimeoutSeconds"),
        ("replicas=0", "/replicas"),
        ("settings.podUsers=Random", "/settings/podUsers"),
        ("settings.engineDefaults.limitRequestRatio.cpu=0.5", "/settings/engineDefaults/limitRequestRatio/cpu"),
        ("settings.routerDefaults.serviceAccountName=A", "/settings/routerDefaults/serviceAccountName"),
        ("podSecurityContext.runAsUser=0", "/podSecurityContext/runAsUser"),
        ("imageRegistry=https://registry.example", "/imageRegistry"),
        ("image.tag=a b", "/image/tag"),
        ("image.repository=", "/image/repository"),
        ("engine.images.gpu=", "/engine/images/gpu"),
        ("scope.namespaces={Team}", "/scope/namespaces/0"),
        ("scope.namespaces={a,a}", "/scope/namespaces"),
        ("crds.install=perhaps", "/crds/install"),
        ("imagePullSecrets[0]=registry", "/imagePullSecrets/0"),
        ("tolerations[0].effekt=NoSchedule", "/tolerations/0"),
        ("settings.listenAddress=10.0.0.1", "/settings/listenAddress"),
        ("nameOverride=My_Name", "/nameOverride"),
        ("extraEnv[0].name=INFERENCE_OPERATOR_LOG_FORMAT", "/extraEnv/0/name"),
        ("extraVolumes[0].name=tmp", "/extraVolumes/0/name"),
        ("extraVolumeMounts[0].name=ca", "/extraVolumeMounts/0"),
        ("topologySpreadConstraints[0].maxSkew=1", "/topologySpreadConstraints/0"),
        ("priorityAndFairness.shares=0", "/priorityAndFairness/shares"),
    ],
)
def test_a_wrong_chart_value_is_refused_with_its_path(helm: Helm, wrong: str, path: str) -> None:
    assert f"at '{path}'" in helm.refusal(wrong)


def test_the_values_schema_accepts_global_values(helm: Helm) -> None:
    assert helm.objects("global.registry=registry.example")


@pytest.mark.parametrize("chart", ["inference-operator", "inference-operator-crds"])
def test_a_chart_of_charts_switches_this_one_by_a_condition(helm: Helm, tmp_path: Path, chart: str) -> None:
    dependency = {"name": chart, "version": ">=0-0", "condition": f"{chart}.enabled"}
    shutil.copytree(CHART.parent / chart, tmp_path / "charts" / chart)
    about = {"apiVersion": "v2", "name": "platform", "version": "0.1.0", "dependencies": [dependency]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(about))
    for enabled in (True, False):
        (tmp_path / "values.yaml").write_text(yaml.safe_dump({chart: {"enabled": enabled}}))
        rendered = helm.run("template", "platform", str(tmp_path))
        assert not rendered.returncode, rendered.stderr
        assert bool(rendered.stdout.strip()) == enabled
