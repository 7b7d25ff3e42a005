"""Engines of a signed model: none starts before its signature is verified, and none that runs is stopped."""

import copy
from dataclasses import replace

import pytest

from inference_operator.api.pod_defaults import EngineDefaults
from inference_operator.api.reasons import Reason
from inference_operator.controller.drift import first_drift
from inference_operator.manifest import JOB, SERVICE, Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned, Refused
from inference_operator.settings import Settings
from inference_operator.views.lookups import ConfigMapLookup, LookupResults, Unavailable
from tests.testing.builders import ENGINES, deployment_status, inputs, model_known
from tests.testing.everything import POD_TEMPLATE, SCHEDULING
from tests.testing.inspected import job_of
from tests.testing.schemas import validate
from tests.testing.verified import (
    KEY_LOOKUP,
    PUBLIC_KEY,
    REFERENCE,
    UNSIGNED,
    asked_for,
    ended,
    signed_model,
    with_key,
)

OTHER_KEY = PUBLIC_KEY.replace("MFkw", "AAAA")


def container_of(found: Outcome) -> Manifest:
    (container,) = job_of(found.desired)["spec"]["template"]["spec"]["containers"]
    return dict(container)


def jobs(found: Outcome) -> list[Ref]:
    return [ref for ref in found.desired if ref.kind == JOB]


def after(asked: Inputs, found: Outcome) -> Inputs:
    """The next decision: all that was desired is there with its status, and no pod any more."""
    live = {ref: {"status": one["status"]} for ref, one in asked.children.items() if "status" in one}
    return replace(asked, children={ref: {**one, **live.get(ref, {})} for ref, one in found.desired.items()}, pods=())


def verified() -> Inputs:
    """Engines run, and the Job that has verified their model is kept."""
    begun = with_key(asked_for())
    signed = ended(begun, job_of(outcome(begun).desired), kind="Complete")
    first = after(signed, outcome(signed))
    return after(first, outcome(first))


@pytest.mark.parametrize("more", [{}, {"podTemplate": POD_TEMPLATE, "scheduling": SCHEDULING}])
def test_the_job_runs_cosign_restricted_with_the_key_that_was_read(more: Manifest) -> None:
    found = outcome(with_key(inputs(signed_model(**more))))
    job = job_of(found.desired)
    validate(copy.deepcopy(job), "1.36")
    container = container_of(found)
    assert container["image"] == "ghcr.io/sigstore/cosign/cosign:v3.1.3"
    assert container["args"][1:] == [
        "verify",
        "--key=env://COSIGN_PUBLIC_KEY",
        "--insecure-ignore-tlog=true",
        "--",
        REFERENCE,
    ]
    assert {"name": "COSIGN_PUBLIC_KEY", "value": PUBLIC_KEY} in container["env"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_job_has_the_pull_secret_of_engines_and_the_variables_of_their_proxy() -> None:
    defaults = EngineDefaults.model_validate({"imagePullSecrets": [{"name": "pull"}]})
    env = [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "HF_TOKEN", "value": "hf_1"}]
    raw = signed_model(engine={"env": env})
    found = outcome(with_key(inputs(raw, settings=Settings(engine_defaults=defaults))))
    container = container_of(found)
    names = {one["name"]: one.get("value") for one in container["env"]}
    assert (names["HTTPS_PROXY"], names["DOCKER_CONFIG"]) == ("http://proxy:3128", "/registry")
    assert "HF_TOKEN" not in names
    (volume,) = [one for one in job_of(found.desired)["spec"]["template"]["spec"]["volumes"] if "secret" in one]
    assert volume["secret"]["secretName"] == "pull"


def test_no_engine_starts_while_the_key_is_read_or_the_job_runs() -> None:
    unread = outcome(asked_for())
    assert isinstance(unread, Planned)
    assert unread.model_wait
    assert unread.model_wait.reason is Reason.VERIFYING_MODEL
    assert (ENGINES in unread.desired, jobs(unread)) == (False, [])
    (look,) = [one for one in unread.lookups if isinstance(one, ConfigMapLookup)]
    assert look.often
    running = outcome(with_key(asked_for()))
    assert isinstance(running, Planned)
    assert running.model_wait
    assert "verifies the signature of the image with the key `cosign.pub`" in running.model_wait.message
    assert (ENGINES in running.desired, len(jobs(running))) == (False, 1)


def test_engines_start_after_the_verification_whose_job_is_kept() -> None:
    begun = with_key(asked_for())
    signed = ended(begun, job_of(outcome(begun).desired), kind="Complete")
    first = outcome(signed)
    assert isinstance(first, Planned)
    assert (first.model_wait, ENGINES in first.desired, len(jobs(first))) == (None, True, 1)
    second = outcome(after(signed, first))
    assert (jobs(second), second.due) == (jobs(first), first.due)
    (look,) = [one for one in second.lookups if isinstance(one, ConfigMapLookup)]
    assert not look.often


def test_a_job_that_is_being_deleted_verifies_nothing() -> None:
    running = verified()
    gone = {"deletionTimestamp": "2026-01-02T03:04:05Z"}
    children = {
        ref: {**one, "metadata": {**one["metadata"], **gone}} if ref.kind == JOB else one
        for ref, one in running.children.items()
    }
    found = outcome(with_key(replace(running, children=children)))
    assert isinstance(found, Planned)
    assert found.model_wait


def test_a_key_with_a_comment_that_has_a_dollar_is_verified() -> None:
    text = f"# costs 5$(A)\n{PUBLIC_KEY}"
    begun = with_key(asked_for(), text)
    found = outcome(ended(begun, job_of(outcome(begun).desired), kind="Complete"))
    assert isinstance(found, Planned)
    assert found.model_wait is None


def test_the_kept_job_is_not_written_again_and_is_adopted_like_any_child() -> None:
    running = verified()
    (ref,) = (ref for ref in running.children if ref.kind == JOB)
    live = running.children[ref]
    noisy = {**live, "metadata": {**live["metadata"], "resourceVersion": "7", "uid": "u"}}
    kept = outcome(with_key(replace(running, children={**running.children, ref: noisy}))).desired[ref]
    assert first_drift(noisy, kept) is None
    assert "status" not in kept
    assert "resourceVersion" not in kept["metadata"]
    orphan = {**noisy, "metadata": {**noisy["metadata"], "ownerReferences": []}}
    adopted = outcome(with_key(replace(running, children={**running.children, ref: orphan}))).desired[ref]
    assert first_drift(orphan, adopted) is not None


def test_a_job_of_another_key_stays_until_the_new_key_is_verified() -> None:
    running = verified()
    waiting = with_key(running, OTHER_KEY)
    found = outcome(waiting)
    assert len(jobs(found)) == 2
    done = outcome(
        ended(after(waiting, found), next(one for one in found.desired.values() if "AAAA" in str(one)), kind="Complete")
    )
    assert len(jobs(done)) == 1
    back = outcome(with_key(after(waiting, found)))
    assert isinstance(back, Planned)
    assert (back.model_wait, len(jobs(back))) == (None, 1)


def test_a_later_release_with_another_image_of_cosign_verifies_nothing_again() -> None:
    running = verified()
    found = outcome(with_key(replace(running, settings=Settings(verifier_image="registry.example/cosign:v9"))))
    assert jobs(found) == [ref for ref in running.children if ref.kind == JOB]


@pytest.mark.parametrize("said", ["", UNSIGNED])
def test_a_job_that_failed_verifies_nothing(said: str) -> None:
    begun = with_key(asked_for())
    found = outcome(ended(begun, job_of(outcome(begun).desired), said))
    assert isinstance(found, Refused)
    assert (found.refusal.reason, ENGINES in found.desired) == (Reason.VERIFICATION_FAILED, False)


@pytest.mark.parametrize(
    "change",
    [
        {"args": ["verify", "--key=env://COSIGN_PUBLIC_KEY", "registry.example/models/other@sha256:0"]},
        {"args": ["version"]},
        {"command": ["true"]},
        {"env": [{"name": "COSIGN_PUBLIC_KEY", "value": OTHER_KEY}]},
        {"env": [{"name": "COSIGN_PUBLIC_KEY", "value": key} for key in (PUBLIC_KEY, OTHER_KEY)]},
        {"name": "other"},
    ],
)
def test_the_success_of_a_job_that_asks_something_else_verifies_nothing(change: Manifest) -> None:
    begun = with_key(asked_for())
    job = copy.deepcopy(job_of(outcome(begun).desired))
    job["spec"]["template"]["spec"]["containers"][0].update(change)
    found = outcome(ended(begun, job, kind="Complete"))
    assert isinstance(found, Refused)
    assert ENGINES not in found.desired


def test_an_unsigned_image_is_refused_and_tried_again() -> None:
    begun = with_key(asked_for())
    found = outcome(ended(begun, job_of(outcome(begun).desired), UNSIGNED))
    assert isinstance(found, Refused)
    assert found.refusal.reason is Reason.VERIFICATION_FAILED
    assert found.refusal.field == "spec.model.verify"
    assert "has no signature in its registry." in found.refusal.message
    assert ENGINES not in found.desired
    assert found.due
    later = replace(begun, children=dict(found.desired), now=found.due)
    assert len(jobs(outcome(ended(later, job_of(found.desired), UNSIGNED)))) == 2


def test_the_kept_job_counts_after_a_restart_and_while_the_key_cannot_be_read() -> None:
    unanswered: LookupResults = {KEY_LOOKUP: Unavailable("its node does not answer")}
    for lookups in ({}, unanswered):
        found = outcome(replace(verified(), lookups=lookups))
        assert isinstance(found, Planned)
        assert (found.model_wait, len(jobs(found)), ENGINES in found.desired) == (None, 1, True)


def test_another_key_is_verified_anew_while_the_engines_stay() -> None:
    running = verified()
    serving = {**running.children[ENGINES], "status": deployment_status(1)}
    running = replace(running, children={**running.children, ENGINES: serving})
    found = outcome(with_key(running, OTHER_KEY))
    assert isinstance(found, Planned)
    assert found.model_wait
    assert "The running engines serve" in found.model_wait.message
    assert len(jobs(found)) == 2
    assert found.desired[ENGINES] == running.children[ENGINES]
    other = next(one for one in found.desired.values() if one["kind"] == "Job" and "AAAA" in str(one))
    refused = outcome(ended(with_key(running, OTHER_KEY), other, UNSIGNED))
    assert isinstance(refused, Refused)
    assert refused.desired[ENGINES] == running.children[ENGINES]


def test_the_job_of_the_former_image_stays_until_the_next_one_is_verified() -> None:
    running = verified()
    other = signed_model()
    other["spec"]["model"]["source"] = f"oci://{REFERENCE.replace('0123', 'ffff')}"
    edited = with_key(replace(running, resource=inputs(other).resource))
    found = outcome(edited)
    assert len(jobs(found)) == 2
    next_job = next(one for one in found.desired.values() if one["kind"] == "Job" and "ffff" in str(one))
    refused = outcome(ended(after(edited, found), next_job, UNSIGNED))
    assert isinstance(refused, Refused)
    back = outcome(with_key(replace(after(edited, refused), resource=running.resource)))
    assert isinstance(back, Planned)
    assert (back.model_wait, len(jobs(back))) == (None, 1)


def test_engines_keep_their_services_while_the_form_of_their_successor_is_another() -> None:
    """The Service of groups selects leaders, which the pods of a Deployment are not."""
    running = verified()
    serving = {**running.children[ENGINES], "status": deployment_status(1)}
    running = replace(running, children={**running.children, ENGINES: serving})
    services = {ref: one for ref, one in running.children.items() if ref.kind == SERVICE}
    other = signed_model(parallelism={"tensor": 1, "nodes": 2}, hardware={}, rollout={"strategy": "Replace"})
    known = model_known(other)
    edited = replace(running, resource=inputs(other).resource, children={**running.children, Ref.of(known): known})
    found = outcome(with_key(edited, OTHER_KEY))
    assert isinstance(found, Planned)
    assert services
    assert {ref: one for ref, one in found.desired.items() if ref in services} == services


def test_a_volume_of_a_claim_or_an_image_is_not_in_the_pod_that_verifies() -> None:
    volumes = [
        {"name": "certificates", "configMap": {"name": "ca"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "more", "image": {"reference": "registry.example/a:1"}},
    ]
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    raw = signed_model(podTemplate={"volumes": volumes, "volumeMounts": mounts})
    job = job_of(outcome(with_key(inputs(raw))).desired)
    pod = job["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["volumes"]] == ["certificates"]
    assert [one["name"] for one in pod["containers"][0]["volumeMounts"]] == ["certificates"]


def test_a_missing_key_is_refused_with_the_command_that_makes_it_and_the_job_stays() -> None:
    first = outcome(with_key(asked_for(), ""))
    assert isinstance(first, Refused)
    assert "the key `cosign.pub` of the ConfigMap `keys` does not exist." in first.refusal.message
    assert "kubectl create configmap" in first.refusal.message
    running = verified()
    gone = outcome(with_key(running, ""))
    assert isinstance(gone, Refused)
    assert (len(jobs(gone)), ENGINES in gone.desired) == (1, True)


def test_plans_that_are_only_shown_have_no_job() -> None:
    shown = outcome(replace(asked_for(), jobs=False))
    assert isinstance(shown, Planned)
    assert (jobs(shown), ENGINES in shown.desired) == ([], True)
