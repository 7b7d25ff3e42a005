"""`infd renew --routers` where nothing is rolled out; tests/apiserver/test_pinned_router.py renews routers."""

import json

import pytest
import yaml

from inference_operator.cli.managed_fields import applied_edit, manager
from inference_operator.cli.renewal import Progress, edit, progress
from inference_operator.manifest import Manifest
from tests.cli.conftest import Infd, listing
from tests.status.situations import RAW

FOLDER = "/apis/inference-operator.dev/v1alpha1/namespaces/default/inferencedeployments"
RESOURCE = f"{FOLDER}/qwen"
FLUX: Manifest = {"labels": {"kustomize.toolkit.fluxcd.io/name": "models"}}
TRACKED: Manifest = {"annotations": {"argocd.argoproj.io/tracking-id": "models:infd:default/qwen"}}


def stored(
    reason: str,
    *,
    status: str = "True",
    seen: int = 7,
    name: str = "qwen",
    spec: Manifest | None = None,
    meta: Manifest | None = None,
) -> Manifest:
    """A resource of generation 7 whose routers are so."""
    condition = {
        "type": "RouterAvailable",
        "status": status,
        "reason": reason,
        "message": f"Because of {reason}.",
        "observedGeneration": seen,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    return {
        **RAW,
        "metadata": {**RAW["metadata"], "name": name, "uid": "u", "generation": 7, **(meta or {})},
        "spec": {**RAW["spec"], **(spec or {})},
        "status": {"observedGeneration": seen, "conditions": [condition]},
    }


@pytest.mark.parametrize(
    ("reason", "status", "seen", "expected"),
    [
        ("Serving", "True", 7, Progress.LATEST),
        ("Serving", "True", 6, Progress.UNSEEN),
        ("RouterOutdated", "True", 7, Progress.OLDER),
        ("RouterVulnerable", "True", 7, Progress.OLDER),
        ("RollingOut", "True", 7, Progress.ROLLING),
        ("ExternalRouting", "True", 7, Progress.NONE),
        ("RouterUnavailable", "False", 7, Progress.UNAVAILABLE),
        ("OfALaterRelease", "False", 7, Progress.UNAVAILABLE),
    ],
)
def test_the_progress_of_routers_is_read_from_their_condition(
    reason: str, status: str, seen: int, expected: Progress
) -> None:
    assert progress(stored(reason, status=status, seen=seen)) is expected


def test_a_resource_without_a_status_is_not_seen_yet() -> None:
    assert progress(RAW) is Progress.UNSEEN


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({}, ""),
        ({"labels": {"app.kubernetes.io/instance": "of Helm"}}, ""),
        ({"managedFields": [{"manager": "kubectl"}, {"manager": "argocd-server"}]}, ""),
        (TRACKED, "Argo CD"),
        ({"labels": {"argocd.argoproj.io/instance": "models"}}, "Argo CD"),
        ({"managedFields": [{"manager": "kubectl"}, {"manager": "argocd-controller"}]}, "Argo CD"),
        (FLUX, "Flux"),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "models"}}, "Flux"),
        ({"managedFields": [{"manager": "kustomize-controller"}]}, "Flux"),
    ],
)
def test_what_applies_a_resource_is_known_by_its_labels_annotations_and_managers(meta: Manifest, expected: str) -> None:
    assert manager(stored("RouterOutdated", meta=meta)) == expected


def test_the_edit_is_another_one_for_each_generation_and_can_create_no_resource() -> None:
    live = stored("RouterOutdated")
    assert edit(live) == {"router": {"podTemplate": {"annotations": {"renewed-at-generation": "7"}}}}
    assert applied_edit(live, edit(live))["metadata"] == {"namespace": "default", "name": "qwen", "uid": "u"}


def put(server: dict[str, bytes], *resources: Manifest) -> None:
    """Store resources, and their list."""
    server[FOLDER] = listing(*resources)
    for one in resources:
        server[f"{FOLDER}/{one['metadata']['name']}"] = json.dumps(one).encode()


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("Serving", "default/qwen: routers are as this release builds them. Nothing was changed.\n"),
        ("ExternalRouting", "default/qwen: no router runs, because `spec.router.strategy` is `External`.\n"),
    ],
)
def test_routers_that_need_no_renewal_are_no_error(
    infd: Infd, server: dict[str, bytes], reason: str, said: str
) -> None:
    put(server, stored(reason))
    assert infd("renew", "--routers", "qwen") == (0, said, "")


def test_a_resource_that_git_manages_is_not_edited_and_the_edit_to_commit_is_printed(
    infd: Infd, server: dict[str, bytes]
) -> None:
    for meta, said in ((TRACKED, "Run Argo CD's action `renew-routers`, or commit this"), (FLUX, "Commit this edit:")):
        put(server, stored("RouterVulnerable", meta=meta))
        status, output, complaints = infd("renew", "--routers", "qwen")
        assert (status, output) == (1, "")
        assert said in complaints
        assert yaml.safe_load(complaints.partition("\n")[2]) == {"spec": edit(stored("RouterVulnerable"))}


def test_what_cannot_be_renewed_says_why_and_the_others_have_their_turn_those_with_vulnerable_routers_first(
    infd: Infd, server: dict[str, bytes]
) -> None:
    put(
        server,
        stored("Serving", name="a"),
        stored("RouterOutdated", name="b", spec={"paused": True}),
        stored("RouterUnavailable", status="False", name="c"),
        stored("RouterVulnerable", name="d", meta=FLUX),
    )
    status, output, complaints = infd("renew", "--routers", "--all")
    assert (status, output) == (1, "default/a: routers are as this release builds them. Nothing was changed.\n")
    told = [line for line in complaints.splitlines() if line.startswith("default/")]
    assert [line.partition(":")[0] for line in told] == ["default/d", "default/b", "default/c"]
    assert told[1].endswith("while `spec.paused` is true. Run `infd resume` first.")
    assert told[2].startswith("default/c: Because of RouterUnavailable. Routers that become ready are as this release")


def test_who_may_not_edit_is_told_the_right_and_no_further_resource_is_tried(
    infd: Infd, server: dict[str, bytes]
) -> None:
    put(server, stored("RouterOutdated", name="a"), stored("RouterOutdated", name="b"))
    status, output, complaints = infd("renew", "--routers", "--all")
    assert (status, output) == (1, "")
    assert complaints == (
        "default/a: you may not edit it. The command needs the right to patch InferenceDeployments: may not be"
        " patched\nNot renewed either: default/b.\n"
    )


def test_an_operator_that_does_not_see_the_edit_is_named_at_the_timeout(infd: Infd, server: dict[str, bytes]) -> None:
    put(server, stored("Serving", seen=6))
    status, output, complaints = infd("renew", "--routers", "qwen", "--timeout=0")
    assert (status, output.count("\n")) == (1, 1)
    assert "nothing has changed for 0 s. The operator has not seen the last edit yet." in complaints


def test_wrong_usage_is_said(infd: Infd, server: dict[str, bytes]) -> None:
    server[FOLDER] = listing()
    assert infd("renew", "--routers", "nosuch") == (
        2,
        "",
        "There is no InferenceDeployment `nosuch` in the namespace `default`.\n",
    )
    assert infd("renew", "--routers", "--all")[:2] == (
        0,
        "There is no InferenceDeployment in the namespace `default`.\n",
    )
    for arguments, missing in (
        (("qwen",), "--routers"),
        (("--routers",), "name --all"),
        (("--routers", "a", "-A"), "-A"),
    ):
        status, _, complaints = infd("renew", *arguments)
        assert (status, missing in complaints) == (2, True), complaints
