"""Manifests under GitOps tools: what the operator does is no difference, and tools that wait tell the truth."""

import base64
import json
import os
import subprocess
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from e2e.go_modules import ensure_helm_3
from e2e.localkube.waiting import eventually
from tests.testing.kubectl_diff import await_no_difference
from tests.testing.workspace import SETTLE_SECONDS, Workspace, manifest

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"
ARGO_CD = SAMPLES.with_name("argo-cd") / "argocd-cm.yaml"
REFUSED = {"model": {"source": "hf://Qwen/Qwen3-8B"}, "engine": {"args": ["--port=1"]}}
GENEROUS = "900s"
"""Longer than a test may take: only a tool that gives up by itself ends before."""
LIMIT_SECONDS = 300


def samples(workspace: Workspace) -> dict[str, str]:
    """Every sample by its file's name, in the namespace of the test."""
    return {
        path.name: path.read_text().replace("namespace: team-a", f"namespace: {workspace.namespace}")
        for path in sorted(SAMPLES.glob("*.yaml"))
    }


def joined(texts: dict[str, str]) -> str:
    return "---\n".join(texts.values())


def chart(folder: Path, texts: dict[str, str]) -> Path:
    """A chart with these manifests."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: models\nversion: 0.1.0\n")
    for name, text in texts.items():
        (folder / "templates" / name).write_text(text)
    return folder


def helm(binary: Path, workspace: Workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    flags = (f"--kubeconfig={workspace.cluster.kubeconfig}", f"--namespace={workspace.namespace}")
    return subprocess.run(
        [binary, *arguments, *flags], check=False, capture_output=True, text=True, timeout=LIMIT_SECONDS
    )


def helm_4(workspace: Workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    return helm(workspace.cluster.binary("helm"), workspace, *arguments)


def client_side(workspace: Workspace, _: Path) -> None:
    text = joined(samples(workspace))
    workspace.kubectl("apply", "--filename=-", input=text)
    assert_no_difference(workspace, lambda: workspace.kubectl("diff", "--filename=-", input=text))


def server_side(workspace: Workspace, _: Path) -> None:
    text = joined(samples(workspace))
    workspace.kubectl("apply", "--server-side", "--filename=-", input=text)
    assert_no_difference(workspace, lambda: workspace.kubectl("diff", "--server-side", "--filename=-", input=text))
    workspace.kubectl("apply", "--server-side", "--filename=-", input=text)  # no field has another owner


def by_helm(workspace: Workspace, folder: Path) -> None:
    done = helm_4(workspace, "install", "models", str(chart(folder / "models", samples(workspace))))
    assert done.returncode == 0, done.stderr
    text = helm_4(workspace, "get", "manifest", "models").stdout
    assert_no_difference(workspace, lambda: workspace.kubectl("diff", "--server-side", "--filename=-", input=text))
    done = helm_4(workspace, "upgrade", "models", str(folder / "models"))
    assert done.returncode == 0, done.stderr
    assert generations(workspace) == {1}


def by_kustomize(workspace: Workspace, folder: Path) -> None:
    texts = samples(workspace)
    for name, text in texts.items():
        (folder / name).write_text(text)
    names = {"resources": list(texts), "namespace": workspace.namespace}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(names))
    workspace.kubectl("apply", f"--kustomize={folder}")
    assert_no_difference(workspace, lambda: workspace.kubectl("diff", f"--kustomize={folder}"))


def assert_no_difference(workspace: Workspace, diff: Callable[[], str]) -> None:
    """Let the operator work on every sample; then nothing differs, and no specification was written."""
    expected = len(samples(workspace))

    def reported() -> bool:
        found = json.loads(workspace.kubectl("get", "infd", "--output=json"))["items"]
        assert len(found) == expected
        return all(one["status"].get("conditions") for one in found)

    eventually(reported, seconds=4 * SETTLE_SECONDS, what=lambda: workspace.kubectl("get", "infd"))
    await_no_difference(diff)
    assert generations(workspace) == {1}, "something has changed a specification"


def generations(workspace: Workspace) -> set[int]:
    """How often each specification was written, once for its creation."""
    found = json.loads(workspace.kubectl("get", "infd", "--output=json"))["items"]
    return {one["metadata"]["generation"] for one in found}


@pytest.mark.parametrize("apply", [client_side, server_side, by_helm, by_kustomize])
def test_no_sample_differs_from_its_manifest_after_the_operator_has_worked_on_it(
    workspace: Workspace, tmp_path: Path, apply: Callable[[Workspace, Path], None]
) -> None:
    apply(workspace, tmp_path)


@pytest.mark.parametrize("side", ["--server-side", "--server-side=false"])
def test_replicas_of_an_autoscaler_and_actions_of_argo_cd_are_no_difference_and_survive_an_apply(
    workspace: Workspace, side: str
) -> None:
    text = manifest("qwen", {"model": {"source": "hf://Qwen/Qwen3-8B"}})
    workspace.kubectl("apply", side, "--filename=-", input=text)
    workspace.kubectl("scale", "infd/qwen", "--replicas=3")
    actions = {"paused": True, "podTemplate": {"annotations": {"renewed-at-generation": "2"}}}
    workspace.patch("qwen", actions)
    await_no_difference(lambda: workspace.kubectl("diff", side, "--filename=-", input=text))
    workspace.kubectl("apply", side, "--filename=-", input=text)
    kept = workspace.get("infd", "qwen")["spec"]
    assert {name: kept[name] for name in ("replicas", *actions)} == {"replicas": 3, **actions}


def test_the_patch_of_argo_cds_config_map_keeps_its_other_entries(workspace: Workspace, tmp_path: Path) -> None:
    workspace.kubectl("create", "configmap", "argocd-cm", "--from-literal=url=https://argocd.example.com")
    patch = tmp_path / "argocd-cm.yaml"
    patch.write_text(ARGO_CD.read_text().replace("namespace: argocd", f"namespace: {workspace.namespace}"))
    workspace.kubectl("patch", "configmap", "argocd-cm", f"--patch-file={patch}")
    found = json.loads(workspace.kubectl("get", "configmap", "argocd-cm", "--output=json"))["data"]
    assert found == {"url": "https://argocd.example.com", **yaml.safe_load(ARGO_CD.read_text())["data"]}


def test_helm_4_waits_until_a_model_serves(workspace: Workspace, tmp_path: Path) -> None:
    folder = chart(tmp_path, {"qwen.yaml": (SAMPLES / "quickstart.yaml").read_text()})
    done = helm_4(workspace, "install", "models", str(folder), "--wait", f"--timeout={GENEROUS}")
    assert done.returncode == 0, done.stderr
    assert workspace.condition("qwen", "Ready")["status"] == "True"


def test_helm_4_gives_up_at_once_if_waiting_does_not_help(workspace: Workspace, tmp_path: Path) -> None:
    folder = chart(tmp_path, {"qwen.yaml": manifest("qwen", REFUSED)})
    done = helm_4(workspace, "install", "models", str(folder), "--wait", f"--timeout={GENEROUS}")
    assert done.returncode != 0
    assert "InferenceDeployment" in done.stderr
    assert "Failed" in done.stderr
    assert workspace.condition("qwen", "Stalled")["status"] == "True"


@pytest.mark.full
def test_helm_3_does_not_look_at_custom_resources(workspace: Workspace, tmp_path: Path) -> None:
    folder = chart(tmp_path, {"qwen.yaml": manifest("qwen", REFUSED)})
    done = helm(ensure_helm_3(), workspace, "install", "models", str(folder), "--wait", f"--timeout={GENEROUS}")
    assert done.returncode == 0, done.stderr
    workspace.settled("qwen", "Stalled", "True")


def waits(workspace: Workspace, condition: str) -> bool:
    """Whether `kubectl wait` ends with success for a condition that may still come."""
    flags = (f"--kubeconfig={workspace.cluster.kubeconfig}", f"--namespace={workspace.namespace}")
    command = [str(workspace.cluster.binary("kubectl")), *flags, "wait", "infd/qwen", f"--for=condition={condition}"]
    return subprocess.run([*command, f"--timeout={GENEROUS}"], check=False, timeout=LIMIT_SECONDS).returncode == 0


def has(workspace: Workspace, condition: str) -> bool:
    name, _, status = condition.partition("=")
    return bool(workspace.condition("qwen", name)["status"] == status)


@pytest.mark.parametrize(
    ("spec", "ready", "stalled"),
    [({"model": {"source": "hf://Qwen/Qwen3-8B"}}, "True", "False"), (REFUSED, "False", "True")],
    ids=["serves", "refused"],
)
def test_kubectl_wait_for_reconciling_false_ends_when_it_serves_and_when_waiting_does_not_help(
    workspace: Workspace, spec: dict[str, object], ready: str, stalled: str
) -> None:
    workspace.create("qwen", spec)
    assert waits(workspace, "Reconciling=False")
    assert has(workspace, f"Ready={ready}")
    assert has(workspace, f"Stalled={stalled}")


def helm_test(workspace: Workspace, account: Path, folder: Path, *, resource: bool) -> subprocess.CompletedProcess[str]:
    """Run the command of the pod that `helm test` creates, as the operator's account."""
    config = yaml.safe_load(account.read_text())
    cluster = config["clusters"][0]["cluster"]
    (folder / "token").write_text(config["users"][0]["user"]["token"])
    (folder / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    chart = Path(__file__).parents[2] / "charts" / "inference-operator"
    rendered = helm_4(
        workspace, "template", "inference-operator", str(chart), "--show-only=templates/tests/status.yaml"
    )
    created, pod = sorted(yaml.safe_load_all(rendered.stdout), key=itemgetter("kind"))
    if resource:
        workspace.kubectl("apply", "--filename=-", input=yaml.safe_dump(created))
    (container,) = pod["spec"]["containers"]
    _, namespace, name, _ = container["args"]
    address = urlsplit(cluster["server"])
    environment = {
        **os.environ,
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
    }
    arguments = [str(folder), namespace, name, "60" if resource else "3"]
    return subprocess.run(
        [*container["command"], *arguments], check=False, capture_output=True, text=True, timeout=120, env=environment
    )


def test_helm_test_succeeds_once_the_operator_has_reported(workspace: Workspace, account: Path, tmp_path: Path) -> None:
    done = helm_test(workspace, account, tmp_path, resource=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert workspace.condition("helm-test", "Ready")["reason"] == "Paused"


def test_helm_test_fails_with_a_cause_if_the_operator_reports_nothing(
    workspace: Workspace, account: Path, tmp_path: Path
) -> None:
    done = helm_test(workspace, account, tmp_path, resource=False)
    assert done.returncode == 1
    assert "the operator has not reported the status" in done.stderr
