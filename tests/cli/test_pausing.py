"""The edits of `infd pause`, `resume` and `restart`; tests/apiserver/test_pause_and_restart.py makes them."""

import pytest

from inference_operator.cli.edit.restart import rolling, why_not
from inference_operator.cli.edits import EditError
from inference_operator.cli.pausing import InGit, PauseEdit, pause_edit, resume_by_force
from inference_operator.cli.renewal import ENGINES, ROUTERS
from inference_operator.manifest import Manifest
from tests.status.situations import RAW

FLUX = "kustomize-controller"


def live(*, owner: str = "", fields: Manifest | None = None, **spec: object) -> Manifest:
    """A resource of which somebody owns fields."""
    owned = [{"manager": owner, "operation": "Apply", "fieldsV1": {"f:spec": fields or {}}}] if owner else []
    meta = {**RAW["metadata"], "uid": "u", "generation": 7, "managedFields": owned}
    return {**RAW, "metadata": meta, "spec": {**RAW["spec"], **spec}}


def test_a_pause_sets_one_field_and_a_resume_gives_it_up() -> None:
    paused, resumed = pause_edit(live(), paused=True), pause_edit(live(paused=True), paused=False)
    assert isinstance(paused, PauseEdit)
    assert isinstance(resumed, PauseEdit)
    assert (paused.body["spec"], resumed.body["spec"]) == ({"paused": True}, {})
    assert paused.body["metadata"] == {"namespace": "default", "name": "qwen", "uid": "u"}
    assert pause_edit(live(), paused=False) is None
    assert pause_edit(live(paused=True), paused=True) is None


def test_what_is_still_paused_after_that_is_resumed_by_force() -> None:
    assert resume_by_force(live()) is None
    forced = resume_by_force(live(paused=True))
    assert forced is not None
    assert forced.body["spec"] == {"paused": False}


@pytest.mark.parametrize("owner", ["kubectl-edit", "argocd-server", "infd-pause"])
def test_who_is_not_git_does_not_keep_a_resource_paused(owner: str) -> None:
    assert isinstance(pause_edit(live(owner=owner, fields={"f:paused": {}}, paused=True), paused=False), PauseEdit)


def test_git_that_sets_the_field_decides_and_git_that_does_not_lets_others_do_so() -> None:
    assert pause_edit(live(owner=FLUX, fields={"f:paused": {}}, paused=True), paused=False) == InGit("Flux")
    assert isinstance(pause_edit(live(owner=FLUX, fields={"f:model": {}}), paused=True), PauseEdit)
    annotated: Manifest = {"f:podTemplate": {"f:annotations": {"f:renewed-at-generation": {}}}}
    assert why_not(live(owner=FLUX, fields=annotated), ENGINES).startswith("Flux sets the annotation")
    assert "podTemplate" in why_not(live(owner=FLUX, fields={"f:router": annotated}), ROUTERS)
    assert why_not(live(owner=FLUX, fields=annotated), ROUTERS) == ""


def test_what_cannot_restart_says_why() -> None:
    assert "Run `infd resume` first." in why_not(live(paused=True), ENGINES)
    external = live(router={"strategy": "External"})
    assert why_not(external, ROUTERS).startswith("no router runs")
    assert why_not(external, ENGINES) == ""


def told(*, seen: int = 7, **reasons: tuple[str, str]) -> Manifest:
    """A resource with conditions about a generation."""
    usual = {
        "Stalled": ("False", "Settled"),
        "Reconciling": ("False", "Settled"),
        "RouterAvailable": ("True", "Serving"),
        **reasons,
    }
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": f"Because of {reason}.",
            "observedGeneration": seen,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
        for kind, (status, reason) in usual.items()
    ]
    return {**live(), "status": {"observedGeneration": seen, "conditions": conditions}}


def test_a_restart_waits_until_engines_and_routers_are_new_and_ends_where_waiting_is_vain() -> None:
    assert rolling(told()) is None
    assert str(rolling(told(seen=6))).startswith("the operator has not seen the edit yet.")
    assert rolling(told(Reconciling=("True", "RollingOut"))) == "Because of RollingOut."
    assert rolling(told(RouterAvailable=("True", "RollingOut"))) == "Because of RollingOut."
    with pytest.raises(EditError, match="paused meanwhile"):
        rolling(told(Reconciling=("False", "Paused")))
    with pytest.raises(EditError, match="OutOfMemory: Because of OutOfMemory"):
        rolling(told(Stalled=("True", "OutOfMemory"), Reconciling=("True", "RollingOut")))
