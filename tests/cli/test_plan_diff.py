"""The parts of `infd plan --diff` that ask no cluster; tests/apiserver/test_plan_diff.py has the whole command."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from inference_operator import __version__
from inference_operator.cli.managed_fields import applier, owners
from inference_operator.cli.operator_settings import settings_of
from inference_operator.cli.plan.cluster import LAST_APPLIED, last_applied, merge_patch
from inference_operator.cli.plan.consequences import Consequences, RoleConsequence
from inference_operator.cli.plan.diff import Difference, FieldChange, ObjectChange, changed_fields, screen
from inference_operator.manifest import Manifest
from tests.cli.conftest import Infd
from tests.testing.golden import GoldenFile
from tests.testing.stored_answers import listing

QWEN = "apiVersion: inference-operator.dev/v1alpha1\nkind: InferenceDeployment\nmetadata: {name: qwen}\nspec: {}\n"
OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.integers(0, 2), max_size=3),
    max_leaves=6,
)


def patched(live: Manifest, patch: Manifest) -> Manifest:
    """The object after a JSON merge patch (RFC 7396)."""
    result = dict(live)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            now = result.get(name)
            result[name] = patched(now if isinstance(now, dict) else {}, value)
        else:
            result[name] = value
    return result


def contains(live: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(name in live and contains(live[name], wanted[name]) for name in wanted)
    return live == wanted


@given(OBJECTS, OBJECTS, OBJECTS)
def test_a_three_way_merge_brings_the_file_and_keeps_what_others_have_added(
    before: Manifest, wanted: Manifest, added: Manifest
) -> None:
    live = patched(before, added)
    merged = patched(live, merge_patch(before, wanted, live))
    assert contains(merged, wanted)
    assert all(name in wanted for name in merged if name in before), "fields that left the file are gone"
    assert all(merged[name] == live[name] for name in live if name not in before and name not in wanted)


def test_what_kubectl_applied_last_is_read_from_its_annotation() -> None:
    text = json.dumps({"spec": {"replicas": 2}, "metadata": {"annotations": {"a": "b", LAST_APPLIED: ""}}})
    found = last_applied({"metadata": {"annotations": {LAST_APPLIED: text}}})
    assert found == {"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 2}}
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED: "{"}}}) is None
    assert last_applied(None) is None


def test_the_manager_of_git_is_taken_before_others_and_none_of_edits_by_infd() -> None:
    entries: list[Manifest] = [
        {"manager": name, "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}}}}
        for name in ("infd-pause", "kubectl", "kustomize-controller")
    ]
    live: Manifest = {"metadata": {"managedFields": entries}}
    assert applier(live) == "kustomize-controller"
    assert owners(live, ("spec", "paused")) == ["infd-pause", "kubectl", "kustomize-controller"]
    assert applier({"metadata": {"managedFields": entries[:1]}}) == ""


def operator(version: str = __version__, **variables: object) -> Manifest:
    env = [
        {"name": name, **(value if isinstance(value, dict) else {"value": value})} for name, value in variables.items()
    ]
    return {
        "metadata": {"labels": {"app.kubernetes.io/version": version}},
        "spec": {"template": {"spec": {"containers": [{"name": "operator", "env": env}]}}},
    }


def test_the_settings_are_those_of_the_operator_that_serves_the_namespace() -> None:
    other = operator(INFERENCE_OPERATOR_NAMESPACES="b", INFERENCE_OPERATOR_SURGE_WAIT_SECONDS="60")
    own = operator(INFERENCE_OPERATOR_NAMESPACES="a,c", INFERENCE_OPERATOR_SURGE_WAIT_SECONDS="90", HOME="/")
    found = settings_of([other, own], "a")
    assert (found.settings.surge_wait_seconds, found.notes) == (90, ())


@pytest.mark.parametrize(
    ("deployments", "note"),
    [
        ([], "No Deployment of an operator for this namespace was found. The defaults of this release are assumed."),
        ([operator("9.9.9")], "The operator is release 9.9.9, and `infd` is"),
        ([operator(INFERENCE_OPERATOR_SURGE_WAIT_SECONDS="soon")], "The operator's settings are of another release."),
        (
            [operator(INFERENCE_OPERATOR_JOB_PROGRAM="/a")],
            "`INFERENCE_OPERATOR_JOB_PROGRAM` names a file of the",
        ),
        (
            [operator(INFERENCE_OPERATOR_CAPACITY={"valueFrom": {"configMapKeyRef": {}}})],
            "`INFERENCE_OPERATOR_CAPACITY` cannot be read from here.",
        ),
    ],
)
def test_what_is_assumed_about_settings_is_said(deployments: list[Manifest], note: str) -> None:
    (said,) = settings_of(deployments, "a").notes
    assert note in said


def test_variables_of_the_command_replace_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCE_OPERATOR_SURGE_WAIT_SECONDS", "77")
    found = settings_of([operator(INFERENCE_OPERATOR_SURGE_WAIT_SECONDS="90")], "a")
    assert found.settings.surge_wait_seconds == 77


def test_who_may_not_patch_is_told_the_right(infd: Infd, server: dict[str, bytes]) -> None:
    server["/apis/inference-operator.dev/v1alpha1/namespaces/default/inferencedeployments"] = listing()
    status, said, complaints = infd("plan", "-f", "-", "--diff", stdin=QWEN)
    assert (status, said) == (4, "")
    assert complaints.startswith("You have no right to patch InferenceDeployments in `default`.")


def test_wrong_usage_is_said(infd: Infd) -> None:
    assert infd("plan", "-f", "-", "--diff", "--gpu=L4", stdin=QWEN)[2].startswith("--diff takes GPUs and models from")
    status, _, complaints = infd("plan", "-f", "-", "--diff", "--cluster", stdin=QWEN)
    assert (status, "not allowed with" in complaints) == (2, True)
    assert infd("plan", "-f", "-", "-n", "a", stdin=QWEN) == (2, "", "--namespace: only with --diff.\n")


FREE = "a node has free GPUs for one more engine"
CHANGED = RoleConsequence("engine", 2, 3, 2, 3, 4, restarts=2, strategy="Surge", why=FREE, start_seconds=95)
ARGS = FieldChange(".spec.template.spec.containers[engine].args", "none", "--seed=8")
DIFFERENCES = {
    "edit": Difference(
        "chat",
        "qwen",
        changes=(
            ObjectChange("change", "Deployment", "qwen-engine", (FieldChange(".spec.replicas", "2", "3"), ARGS)),
            ObjectChange("change", "ConfigMap", "qwen-router", (FieldChange(".data.haproxy.cfg"),)),
            ObjectChange("delete", "PodDisruptionBudget", "qwen-engine"),
        ),
        consequences=Consequences((CHANGED,), "2 routers restart, one after the other.", "files of the model."),
        notes=("The settings are those of the operator's Deployment.",),
    ),
    "new": Difference(
        "chat",
        "llama",
        is_new=True,
        changes=(ObjectChange("create", "Job", "llama-inspect"),),
        waits="the Job `llama-inspect` reads the model, and the sizes follow from it.",
    ),
    "paused": Difference(
        "chat", "held", is_paused=True, changes=(ObjectChange("change", "Deployment", "held-engine", (ARGS,)),)
    ),
}


@pytest.mark.parametrize("columns", [80, 120])
def test_the_screen_of_differences(columns: int, snapshot: SnapshotAssertion) -> None:
    text = io.StringIO()
    for one in DIFFERENCES.values():
        Console(file=text, width=columns, highlight=False).print(screen(one))
    assert max(map(len, text.getvalue().splitlines())) <= columns
    assert text.getvalue() == snapshot.use_extension(GoldenFile.ending("txt"))


def test_values_of_fields_are_shown_unless_they_are_long_objects_or_secret() -> None:
    def live(value: object) -> Manifest:
        return {"kind": "Deployment", "spec": {"a": value}}

    for before, after, words in (
        ({"cpu": "250m"}, {"cpu": "300m"}, ".spec.a.cpu: 250m -> 300m"),
        (None, "x", ".spec.a: unset -> x"),
        (None, {"x": 1}, ".spec.a"),
        (False, True, ".spec.a: false -> true"),
        (["--a=1", "--b"], ["--a=2", "--b", "--c"], ".spec.a: --a=1 -> --a=2 --c"),
        ("one\ntwo", "one", ".spec.a"),
        ("x", "y" * 99, f".spec.a: x -> {'y' * 60}…"),
    ):
        assert [change.words for change in changed_fields(live(before), live(after))] == [words]
    hidden = changed_fields({"kind": "Secret", "data": {"a": "b"}}, {"kind": "Secret", "data": {"a": "c"}})
    assert [change.words for change in hidden] == [".data.a"]
