"""The edits of `infd pause`, `resume` and `restart`; tests/apiserver/test_pause_and_restart.py makes them."""

import pytest

from inference_operator.cli.cluster_command import Step
from inference_operator.cli.edit.edits import EDITS
from inference_operator.cli.managed_fields import applied_edit
from inference_operator.manifest import Manifest
from tests.status.situations import RAW

FLUX = "kustomize-controller"
PAUSE, RESUME = (EDITS[one][""] for one in ("pause", "resume"))
ENGINES, ROUTERS = (EDITS["restart"][one] for one in ("engines", "routers"))


def live(*, owner: str = "", fields: Manifest | None = None, **spec: object) -> Manifest:
    """A resource of which somebody owns fields."""
    owned = [{"manager": owner, "operation": "Apply", "fieldsV1": {"f:spec": fields or {}}}] if owner else []
    meta = {**RAW["metadata"], "uid": "u", "generation": 7, "managedFields": owned}
    return {**RAW, "metadata": meta, "spec": {**RAW["spec"], **spec}}


def test_a_pause_sets_one_field_and_a_resume_gives_it_up() -> None:
    paused = live(paused=True)
    assert (PAUSE.spec(live()), RESUME.spec(paused), RESUME.forced) == ({"paused": True}, {}, {"paused": False})
    assert applied_edit(live(), {})["metadata"] == {"namespace": "default", "name": "qwen", "uid": "u"}
    assert (PAUSE.needless(live()), RESUME.needless(paused)) == ("", "")
    assert RESUME.needless(live()) == "is not paused already. Nothing was changed."
    assert PAUSE.needless(paused) == "is paused already. Nothing was changed."


@pytest.mark.parametrize("owner", ["kubectl-edit", "argocd-server", "infd-pause"])
def test_who_is_not_git_does_not_keep_a_resource_paused(owner: str) -> None:
    assert RESUME.forbids(live(owner=owner, fields={"f:paused": {}}, paused=True)) == ""


def test_git_that_sets_the_field_decides_and_git_that_does_not_lets_others_do_so() -> None:
    by_flux = live(owner=FLUX, fields={"f:paused": {}}, paused=True)
    assert RESUME.forbids(by_flux) == "Flux sets `spec.paused` from its source. Commit `spec.paused: false` there."
    assert PAUSE.forbids(live(owner=FLUX, fields={"f:model": {}})) == ""
    annotated: Manifest = {"f:podTemplate": {"f:annotations": {"f:renewed-at-generation": {}}}}
    assert ENGINES.forbids(live(owner=FLUX, fields=annotated)).startswith("Flux sets the annotation")
    assert "podTemplate" in ROUTERS.forbids(live(owner=FLUX, fields={"f:router": annotated}))
    assert ROUTERS.forbids(live(owner=FLUX, fields=annotated)) == ""


def test_what_cannot_restart_says_why() -> None:
    assert "Run `infd resume` first." in ENGINES.forbids(live(paused=True))
    external = live(router={"strategy": "External"})
    assert ROUTERS.forbids(external).startswith("no router runs")
    assert ENGINES.forbids(external) == ""


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
    step = ENGINES.steps()
    assert step(told()) == Step(is_last=True)
    assert step(told(seen=6)).message.startswith("the operator has not seen the edit yet.")
    assert step(told(Reconciling=("True", "RollingOut"))) == Step("Because of RollingOut.")
    assert step(told(RouterAvailable=("True", "RollingOut"))) == Step("Because of RollingOut.")
    assert "paused meanwhile" in step(told(Reconciling=("False", "Paused"))).failure
    ended = step(told(Stalled=("True", "OutOfMemory"), Reconciling=("True", "RollingOut")))
    assert ended.failure == "OutOfMemory: Because of OutOfMemory."
