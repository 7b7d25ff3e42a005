"""The chart on a real API server; KWOK simulates the node, so the operator pod is Ready without running."""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.deploy.local_registry import local_registry
from e2e.deploy.push import chart, push_chart, push_own_chart
from e2e.go_modules import ensure_helm_3
from e2e.localkube import local
from e2e.localkube.binaries import Level
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.manifest import Manifest
from tests.chart.documented import INSTALL_PAGE, UPGRADE_PAGE, helm_commands, with_registry
from tests.chart.helm import CHART, CRDS_CHART, NAMESPACE, RELEASE, Helm
from tests.testing.definitions import await_established
from tests.testing.kubectl_diff import await_no_difference
from tests.testing.upstream_crds import prometheus_operator_crd

MANIFESTS = CHART.parents[1] / "manifests"
SAMPLES = MANIFESTS / "samples"
CI = sorted((CHART / "ci").glob("*-values.yaml"))
POLICY = "validatingadmissionpolicies,validatingadmissionpolicybindings"
RESOURCE = "inferencedeployments.inference-operator.dev"
DEFINITIONS = (RESOURCE, "modelgateways.inference-operator.dev")
OBJECTS = "customresourcedefinitions,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,deployments"
OURS = f"--selector=app.kubernetes.io/name={RELEASE}"
NOTED_COMMAND = re.compile(r"^ *(kubectl .*<<EOF\n(?s:.*?)\nEOF|kubectl .*)$", re.MULTILINE)
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    name = f"chart-{os.getpid()}"
    found = local.up(name, Level.CONTROL_PLANE, gpu_nodes=1, owned=True)
    found.kubectl("create", "namespace", NAMESPACE)
    found.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    for namespace in ("team-a", "team-b"):
        found.kubectl("create", "namespace", namespace)
    for plural in ("podmonitors", "prometheusrules"):
        found.kubectl("apply", "--server-side", f"--filename={prometheus_operator_crd(plural)}")
        await_established(found, f"{plural}.monitoring.coreos.com")
    yield found
    local.down(name, purge=True)


@pytest.fixture
def release(helm: Helm, cluster: LocalCluster) -> Iterator["Release"]:
    found = Release(helm, cluster)
    yield found
    found.run("uninstall", RELEASE, "--ignore-not-found", "--wait")
    cluster.kubectl("delete", "customresourcedefinition", *DEFINITIONS, "--ignore-not-found")


class Release:
    """One release on one cluster."""

    def __init__(self, helm: Helm, cluster: LocalCluster) -> None:
        self._helm = helm
        self._cluster = cluster

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._on_cluster(*arguments, "--timeout=60s")

    def get(self, what: str) -> str:
        done = self._on_cluster("get", what, RELEASE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _on_cluster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        flags = (f"--kubeconfig={self._cluster.kubeconfig}", f"--namespace={NAMESPACE}")
        return self._helm.run(*arguments, *flags)

    def install(self, *sets: str, command: str = "install") -> None:
        flags = [flag for value in sets for flag in ("--set", value)]
        done = self.run(command, RELEASE, str(CHART), "--wait", *flags)
        assert done.returncode == 0, done.stderr

    def uninstall(self) -> None:
        done = self.run("uninstall", RELEASE, "--wait")
        assert done.returncode == 0, done.stderr


def objects(cluster: LocalCluster) -> set[str]:
    return set(cluster.kubectl("get", OBJECTS, "--all-namespaces", OURS, "--output=name").split())


def may(cluster: LocalCluster, user: str, verb: str, *, namespace: str, subresource: str = "") -> bool:
    asked = ["auth", "can-i", verb, RESOURCE, f"--as={user}", f"--namespace={namespace}"]
    try:
        return cluster.kubectl(*asked, *([f"--subresource={subresource}"] if subresource else [])) == "yes\n"
    except ClusterError:  # kubectl's status for "no" is 1
        return False


def eventually_may(cluster: LocalCluster, user: str, verb: str, *, namespace: str) -> None:
    """The API server learns of a new role within moments, and aggregated roles are put together by a controller."""
    eventually(
        lambda: may(cluster, user, verb, namespace=namespace),
        seconds=10,
        what=lambda: f"{user} may {verb} in {namespace}",
    )


def test_the_operator_starts_in_a_namespace_with_restricted_pod_security(
    release: Release, cluster: LocalCluster
) -> None:
    release.install()
    ready = cluster.kubectl(
        "--namespace", NAMESPACE, "get", "deployment", RELEASE, "--output=jsonpath={.status.readyReplicas}"
    )
    assert ready == "2"


def test_the_api_server_accepts_every_sample_manifest(release: Release, cluster: LocalCluster) -> None:
    release.install()
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", f"--filename={SAMPLES}")


def test_uninstall_keeps_the_crd_and_a_new_install_adopts_the_crd(release: Release, cluster: LocalCluster) -> None:
    release.install()
    cluster.kubectl("apply", f"--filename={SAMPLES / 'quickstart.yaml'}")
    before = objects(cluster)
    release.uninstall()
    assert objects(cluster) == set()
    assert cluster.kubectl("get", RESOURCE, "--output=name").split() == [f"{RESOURCE.replace('s.', '.', 1)}/qwen"]
    release.install()
    assert objects(cluster) == before


@pytest.mark.parametrize("values", CI, ids=lambda path: path.stem)
def test_the_chart_installs_with_every_values_file_of_the_folder_ci(release: Release, values: Path) -> None:
    done = release.run("install", RELEASE, str(CHART), "--wait", f"--values={values}")
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_helm_3_installs_upgrades_and_removes_the_release(cluster: LocalCluster, tmp_path: Path) -> None:
    helm_3 = Helm(ensure_helm_3(), tmp_path)
    assert helm_3.run("version", "--short").stdout.startswith("v3.")
    release = Release(helm_3, cluster)
    release.install()
    for values in CI:
        if "shared" not in values.stem:
            done = release.run("upgrade", RELEASE, str(CHART), "--wait", f"--values={values}")
            assert done.returncode == 0, done.stderr
    release.uninstall()
    cluster.kubectl("delete", "customresourcedefinition", *DEFINITIONS)


def test_helm_can_upgrade_the_release_and_roll_it_back(release: Release, cluster: LocalCluster) -> None:
    release.install()
    before = objects(cluster)
    release.install("networkPolicies.enabled=true", "priorityAndFairness.create=true", command="upgrade")
    done = release.run("rollback", RELEASE, "1", "--wait")
    assert done.returncode == 0, done.stderr
    assert objects(cluster) == before


def test_the_crd_can_be_installed_by_its_own_chart_before_the_operator(release: Release, cluster: LocalCluster) -> None:
    done = release.run("install", "crds", str(CRDS_CHART), "--wait")
    assert done.returncode == 0, done.stderr
    release.install("crds.install=false")
    cluster.kubectl("apply", f"--filename={SAMPLES / 'quickstart.yaml'}")
    assert release.run("uninstall", "crds").returncode == 0
    assert cluster.kubectl("get", RESOURCE, "--output=name"), "the CRD is kept, and so are all resources"


def test_the_commands_of_the_documents_install_and_upgrade_the_pushed_images(
    release: Release, cluster: LocalCluster, tmp_path: Path
) -> None:
    with local_registry(tmp_path) as registry:
        push_own_chart(f"{registry}/team")
        (install, *_), (upgrade,) = helm_commands(INSTALL_PAGE, "install"), helm_commands(UPGRADE_PAGE, "upgrade")
        for command in (install, upgrade):
            done = release.run(*with_registry(command, registry))
            assert done.returncode == 0, done.stderr
        found = cluster.kubectl(
            *("--namespace", NAMESPACE, "get", "pods", "--output=jsonpath={.items[*].spec.containers[*].image}")
        )
        assert set(found.split()) == {f"{registry}/team/inference-operator/operator:{chart()['appVersion']}"}


@pytest.mark.full
def test_both_charts_install_from_the_registry_that_they_were_pushed_to(
    release: Release, cluster: LocalCluster, tmp_path: Path
) -> None:
    with local_registry(tmp_path) as registry:
        for name, source_chart, values in (("crds", CRDS_CHART, ()), (RELEASE, CHART, ("--set=crds.install=false",))):
            pushed, _, version = push_chart(registry, source_chart)[0].rpartition(":")
            source = (f"oci://{pushed}", f"--version={version}", "--plain-http")
            done = release.run("install", name, *source, *values, "--wait")
            assert done.returncode == 0, done.stderr
    cluster.kubectl("apply", f"--filename={SAMPLES / 'quickstart.yaml'}")
    assert release.run("uninstall", "crds").returncode == 0


def test_a_release_with_another_name_needs_the_flag_take_ownership_for_a_crd_that_was_kept(
    release: Release, cluster: LocalCluster
) -> None:
    release.install()
    cluster.kubectl("apply", f"--filename={SAMPLES / 'quickstart.yaml'}")
    release.uninstall()
    other = ("install", "models", str(CHART), "--wait")
    refused = release.run(*other)
    assert "cannot be imported into the current release" in refused.stderr
    release.run("uninstall", "models", "--ignore-not-found")
    done = release.run(*other, "--take-ownership")
    assert done.returncode == 0, done.stderr
    assert cluster.kubectl("get", RESOURCE, "--output=name").split() == [f"{RESOURCE.replace('s.', '.', 1)}/qwen"]
    assert release.run("uninstall", "models", "--wait").returncode == 0


@pytest.mark.parametrize("folder", ["base", *(f"overlays/{one}" for one in ("namespaced", "monitoring", "air-gapped"))])
def test_kustomize_installs_the_operator_and_nothing_differs_afterwards(cluster: LocalCluster, folder: str) -> None:
    path = f"--kustomize={MANIFESTS / folder}"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", path)
    try:
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{RELEASE}", "--timeout=120s")
        await_no_difference(lambda: cluster.kubectl("diff", "--server-side", "--force-conflicts", path))
    finally:
        delete_objects(cluster, path)


def test_the_api_server_neither_drops_nor_adds_a_field_of_monitors_and_rules(
    release: Release, cluster: LocalCluster
) -> None:
    release.install("monitoring.podMonitors.enabled=true", "monitoring.rules.enabled=true")
    rendered = [one for one in yaml.safe_load_all(release.get("manifest")) if one]
    asked = ("--namespace", NAMESPACE, "get", "podmonitors,prometheusrules", "--output=json")
    found = specs(json.loads(cluster.kubectl(*asked))["items"])
    assert len(found) == 4
    assert found == {name: spec for name, spec in specs(rendered).items() if name in found}


def specs(objects: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(one["kind"], one["metadata"]["name"]): one.get("spec", {}) for one in objects}


def test_the_commands_of_the_notes_run_as_they_are(release: Release, cluster: LocalCluster) -> None:
    release.install()
    noted = NOTED_COMMAND.findall(release.get("notes"))
    assert len(noted) == 4
    commands = [command for command in noted if "port-forward" not in command]  # no pod runs on a node of KWOK
    path = f"{cluster.binary('kubectl').parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}
    for command in commands:  # the last one watches until somebody ends it
        once = ["bash", "-euc", command.replace(" --watch", "")]
        subprocess.run(once, check=True, timeout=60, env=environment)
    assert cluster.kubectl("get", RESOURCE, "--output=name").split() == [f"{RESOURCE.replace('s.', '.', 1)}/qwen"]


def test_install_yaml_installs_the_operator_with_a_plain_kubectl_apply(cluster: LocalCluster) -> None:
    path = f"--filename={MANIFESTS / 'install.yaml'}"
    cluster.kubectl("apply", path)
    try:
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{RELEASE}", "--timeout=120s")
        await_no_difference(lambda: cluster.kubectl("diff", path))
    finally:
        delete_objects(cluster, path)


def delete_objects(cluster: LocalCluster, path: str) -> None:
    """Delete what was applied, but not the namespace of all tests."""
    cluster.kubectl("delete", path, f"--selector=app.kubernetes.io/name={RELEASE}", "--ignore-not-found")
    cluster.kubectl("delete", "customresourcedefinition", *DEFINITIONS, "--ignore-not-found")
    cluster.kubectl("delete", POLICY, "--all")


def test_requests_of_the_operator_can_have_a_priority_level_of_their_own(
    release: Release, cluster: LocalCluster
) -> None:
    release.install("priorityAndFairness.create=true")
    eventually_may(cluster, ACCOUNT, "list", namespace="default")
    await_flow_schema(cluster, RELEASE, "get", RESOURCE)
    await_flow_schema(cluster, f"{RELEASE}-lease", "-n", NAMESPACE, "get", "lease", RELEASE)


def await_flow_schema(cluster: LocalCluster, name: str, *request: str) -> None:
    """Wait until the API server counts this request of the operator's account to this FlowSchema; it says so by uid."""
    uid = cluster.kubectl("get", "flowschema", name, "--output=jsonpath={.metadata.uid}")
    kubectl = (str(cluster.binary("kubectl")), f"--kubeconfig={cluster.kubeconfig}", f"--as={ACCOUNT}", "-v=8")

    def is_used() -> bool:
        done = subprocess.run([*kubectl, *request], check=False, capture_output=True, text=True, timeout=30)
        return uid in done.stderr

    eventually(is_used, seconds=30, what=f"the API server uses the FlowSchema {name}")


def test_helm_upgrade_can_change_the_scope(release: Release, cluster: LocalCluster) -> None:
    release.install()
    eventually_may(cluster, ACCOUNT, "list", namespace="default")
    release.install("scope.namespaces={team-a,team-b}", command="upgrade")
    eventually_may(cluster, ACCOUNT, "list", namespace="team-a")
    eventually_may(cluster, ACCOUNT, "list", namespace="team-b")
    assert not may(cluster, ACCOUNT, "list", namespace="default")


def test_view_edit_and_admin_grant_the_expected_verbs(release: Release, cluster: LocalCluster) -> None:
    release.install()
    for role in ("view", "edit", "admin"):
        cluster.kubectl("-n", "team-a", "create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}")
        eventually_may(cluster, role, "get", namespace="team-a")
    for user in ("edit", "admin"):
        for verb in ("get", "create", "patch", "delete"):
            assert may(cluster, user, verb, namespace="team-a")
        assert may(cluster, user, "patch", namespace="team-a", subresource="scale")
        assert not may(cluster, user, "patch", namespace="team-a", subresource="status")
        assert not may(cluster, user, "get", namespace="team-b")
    assert may(cluster, "view", "get", namespace="team-a")
    assert may(cluster, "view", "get", namespace="team-a", subresource="scale")
    assert not may(cluster, "view", "create", namespace="team-a")
    assert not may(cluster, "view", "patch", namespace="team-a", subresource="scale")
