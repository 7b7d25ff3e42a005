"""`infd renew`: its edits, its order, and what it tells; tests/apiserver/test_pinned_router.py renews routers."""

import json
from collections.abc import Mapping
from typing import TypeAlias

import pytest
import yaml

from inference_operator.cli.edit.edits import ENGINES, ROUTERS, Progress
from inference_operator.cli.managed_fields import applied_edit, manager
from inference_operator.manifest import Manifest
from tests.cli.conftest import Infd
from tests.status.situations import RAW
from tests.testing.stored_answers import ApiServer, listing

FOLDER = "/apis/inference-operator.dev/v1alpha1/namespaces/default/inferencedeployments"
RESOURCE = f"{FOLDER}/qwen"
FLUX: Manifest = {"labels": {"kustomize.toolkit.fluxcd.io/name": "models"}}
Conditions: TypeAlias = Mapping[str, tuple[str, str]]
"""Status and reason of conditions, by their type."""
PODS = ("routers", "engines")
TRACKED: Manifest = {"annotations": {"argocd.argoproj.io/tracking-id": "models:infd:default/qwen"}}


def told(kind: str, status: str, reason: str, seen: int = 7) -> Manifest:
    """A condition about a generation."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"Because of {reason}.",
        "observedGeneration": seen,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


def stored(
    reason: str = "Serving",
    *,
    status: str = "True",
    seen: int = 7,
    name: str = "qwen",
    spec: Manifest | None = None,
    meta: Manifest | None = None,
    others: Conditions | None = None,
) -> Manifest:
    """A resource of generation 7 whose routers are so, with other conditions by their type."""
    usual = {
        "Ready": ("True", "Serving"),
        "Reconciling": ("False", "Settled"),
        "Stalled": ("False", "NotStalled"),
        "EnginesAvailable": ("True", "Serving"),
        "RouterAvailable": (status, reason),
        **(others or {}),
    }
    return {
        **RAW,
        "metadata": {**RAW["metadata"], "name": name, "uid": "u", "generation": 7, **(meta or {})},
        "spec": {**RAW["spec"], **(spec or {})},
        "status": {"observedGeneration": seen, "conditions": [told(kind, *one, seen) for kind, one in usual.items()]},
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
    assert ROUTERS.progress(stored(reason, status=status, seen=seen)) is expected


OUTDATED: Conditions = {"EnginesAvailable": ("True", "EnginesOutdated")}
VULNERABLE: Conditions = {"EnginesAvailable": ("True", "EnginesVulnerable")}
NO_ENGINE: Conditions = {"Ready": ("False", "EnginesUnavailable"), "EnginesAvailable": ("False", "Starting")}
REFUSED: Conditions = {"Stalled": ("True", "InvalidSpec")}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, Progress.LATEST),
        (OUTDATED, Progress.OLDER),
        (VULNERABLE, Progress.OLDER),
        ({"EnginesAvailable": ("True", "NetworkDevicesUnused")}, Progress.LATEST),
        ({"EnginesAvailable": ("True", "ScaledToZero")}, Progress.NONE),
        ({"EnginesAvailable": ("False", "EnginesUnavailable")}, Progress.UNAVAILABLE),
        ({**OUTDATED, **REFUSED}, Progress.STALLED),
        ({"Reconciling": ("True", "Unschedulable")}, Progress.ROLLING),
        ({**NO_ENGINE, "Reconciling": ("True", "RollingOut")}, Progress.ROLLING),
        ({**NO_ENGINE, "Reconciling": ("True", "Starting")}, Progress.UNAVAILABLE),
        ({"Ready": ("False", "RouterUnavailable"), "Reconciling": ("True", "RouterUnavailable")}, Progress.UNAVAILABLE),
    ],
)
def test_the_progress_of_engines_is_read_from_several_conditions(others: Conditions, expected: Progress) -> None:
    assert ENGINES.progress(stored(others=others)) is expected
    assert ENGINES.progress(stored(seen=6, others=others)) is Progress.UNSEEN


def test_a_resource_without_a_status_is_not_seen_yet() -> None:
    assert [part.progress(RAW) for part in (ROUTERS, ENGINES)] == [Progress.UNSEEN, Progress.UNSEEN]


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
    template = {"podTemplate": {"annotations": {"renewed-at-generation": "7"}}}
    assert (ROUTERS.edit(live), ENGINES.edit(live)) == ({"router": template}, template)
    assert applied_edit(live, ENGINES.edit(live))["metadata"] == {"namespace": "default", "name": "qwen", "uid": "u"}


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


def test_both_parts_are_renewed_the_routers_first_unless_one_is_chosen(infd: Infd, server: dict[str, bytes]) -> None:
    lines = [f"default/qwen: {pods} are as this release builds them. Nothing was changed.\n" for pods in PODS]
    put(server, stored())
    assert infd("renew", "qwen") == (0, "".join(lines), "")
    assert infd("renew", "qwen", "--engines") == (0, lines[1], "")
    put(server, stored(others={"EnginesAvailable": ("True", "ScaledToZero")}))
    status, output, _ = infd("renew", "--engines", "qwen")
    assert (status, "no engine runs. The next one is as this release builds it." in output) == (0, True)


def test_a_resource_that_git_manages_is_not_edited_and_the_edit_to_commit_is_printed(
    infd: Infd, server: dict[str, bytes]
) -> None:
    for part, action in ((ROUTERS, "renew-routers"), (ENGINES, "renew")):
        for meta, said in ((TRACKED, f"Run Argo CD's action `{action}`, or commit this"), (FLUX, "Commit this edit:")):
            put(server, stored("RouterVulnerable", meta=meta, others=OUTDATED))
            status, output, complaints = infd("renew", f"--{part.name}", "qwen")
            assert (status, output) == (1, "")
            assert said in complaints
            assert yaml.safe_load(complaints.partition("\n")[2]) == {"spec": part.edit(stored())}


def test_what_cannot_be_renewed_says_why_and_the_others_have_their_turn_those_with_vulnerable_pods_first(
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
    said = [line for line in complaints.splitlines() if line.startswith("default/")]
    assert [line.partition(":")[0] for line in said] == ["default/d", "default/b", "default/c"]
    assert said[1].endswith("while `spec.paused` is true. Run `infd resume` first.")
    assert said[2].startswith("default/c: Because of RouterUnavailable. Routers that become ready are as this release")


def test_engines_with_known_vulnerabilities_come_first_and_what_is_so_for_both_parts_is_told_once(
    infd: Infd, server: dict[str, bytes]
) -> None:
    put(
        server,
        stored(name="a", spec={"paused": True}),
        stored(name="b", meta=FLUX, others=VULNERABLE),
        stored(name="c", others=REFUSED),
        stored(name="d", others={"EnginesAvailable": ("False", "EnginesUnavailable")}),
    )
    status, output, complaints = infd("renew", "--all")
    assert status == 1
    assert output == "".join(
        f"default/{name}: routers are as this release builds them. Nothing was changed.\n" for name in "bcd"
    )
    said = [line for line in complaints.splitlines() if line.startswith("default/")]
    assert [line.partition(":")[0] for line in said] == ["default/b", "default/a", "default/c", "default/d"]
    assert said[2].endswith("its engines are not renewed before this is solved: Because of InvalidSpec.")
    assert "Because of EnginesUnavailable. Engines are renewed when enough of them are ready" in said[3]


@pytest.mark.parametrize("form", ["table", "json"])
def test_engines_are_renewed_one_resource_after_the_other_until_one_fails(
    form: str, infd: Infd, server: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    after: dict[str, list[Conditions]] = {
        "a": [{"Reconciling": ("True", "RollingOut")}, {**NO_ENGINE, "Reconciling": ("True", "RollingOut")}, {}],
        "b": [{"Reconciling": ("True", "RollingOut")}, {"Stalled": ("True", "ImagePullFailed")}],
    }
    edits: list[tuple[str, str]] = []

    async def edited(_: object, body: Manifest, manager: str) -> None:
        edits.append((body["metadata"]["name"], manager))

    async def pause(_: float) -> None:
        name = edits[-1][0]
        put(server, stored(name=name, others=after[name].pop(0)))

    monkeypatch.setattr("inference_operator.cli.edit.command.edited", edited)
    monkeypatch.setattr("inference_operator.cli.cluster_command.asyncio.sleep", pause)
    put(server, *(stored(name=name, others=OUTDATED) for name in "abc"))
    status, output, complaints = infd("renew", "--engines", "--all", "-o", form)
    assert (status, edits) == (1, [("a", "infd-renew-engines"), ("b", "infd-renew-engines")])
    failures = (
        "default/b: the edit does not bring new engines: Because of ImagePullFailed.\n"
        "Not renewed either: engines of default/c."
    )
    if form == "table":
        assert "default/a: edited `spec.podTemplate.annotations`.\n" in output
        assert output.count("all engines are renewed") == 1
        assert complaints == f"{failures}\n"
    else:
        made = [(one["name"], one["edit"], one["changed"]) for one in json.loads(output)["items"]]
        assert made == [("a", "engines", True), ("b", "engines", True)]
        assert json.loads(complaints.splitlines()[-1])["error"]["message"] == failures


def test_a_rollout_that_goes_on_is_followed_before_anything_is_edited(
    infd: Infd, server: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pause(_: float) -> None:
        put(server, stored())

    monkeypatch.setattr("inference_operator.cli.cluster_command.asyncio.sleep", pause)
    put(server, stored("RollingOut"))
    status, output, _ = infd("renew", "--routers", "qwen")
    assert (status, output.splitlines()) == (
        0,
        [
            "default/qwen: Because of RollingOut.",
            "default/qwen: routers are as this release builds them. Nothing was changed.",
        ],
    )


def test_who_may_not_edit_is_told_the_right_and_no_further_resource_is_tried(
    infd: Infd, server: dict[str, bytes]
) -> None:
    put(server, stored("RouterOutdated", name="a"), stored("RouterOutdated", name="b"))
    status, output, complaints = infd("renew", "--routers", "--all")
    assert (status, output) == (1, "")
    assert complaints == (
        "default/a: you may not edit it. The command needs the right to patch InferenceDeployments: may not be"
        " patched\nNot renewed either: routers of default/b.\n"
    )


def test_what_became_of_resources_is_told_although_the_command_ends_early(infd: Infd, server: dict[str, bytes]) -> None:
    put(server, stored("RouterVulnerable", name="a", spec={"paused": True}), stored("RouterOutdated", name="b"))
    del server[f"{FOLDER}/b"]
    ApiServer.forbidden.add(f"{FOLDER}/b")
    status, output, complaints = infd("renew", "--routers", "--all")
    assert (status > 1, output) == (True, "")
    assert complaints.startswith("default/a: ")
    assert "may not be read" in complaints
    status, output, _ = infd("renew", "--routers", "--all", "--output=json")
    assert [each["name"] for each in json.loads(output)["items"]] == ["a"]


def test_an_operator_that_does_not_see_the_edit_is_named_at_the_timeout(infd: Infd, server: dict[str, bytes]) -> None:
    put(server, stored("Serving", seen=6))
    status, output, complaints = infd("renew", "--routers", "qwen", "--timeout=0")
    assert (status, output.count("\n")) == (1, 1)
    assert "nothing has changed for 0 s. The operator has not seen the last edit yet." in complaints


def test_wrong_usage_is_said(infd: Infd, server: dict[str, bytes]) -> None:
    server[FOLDER] = listing()
    assert infd("renew", "--routers", "nosuch") == (
        3,
        "",
        "There is no InferenceDeployment `nosuch` in the namespace `default`.\n",
    )
    assert infd("renew", "--routers", "--all")[:2] == (
        0,
        "There is no InferenceDeployment in the namespace `default`.\n",
    )
    for arguments, missing in (
        (("--routers",), "name --all"),
        (("qwen", "--routers", "--engines"), "--engines"),
        (("--routers", "a", "-A"), "-A"),
    ):
        status, _, complaints = infd("renew", *arguments)
        assert (status, missing in complaints) == (2, True), complaints
