"""Signatures that the owner's policy requires: of every image that a resource names, with the owner's key."""

from dataclasses import replace

import pytest

from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.reasons import Reason
from inference_operator.fleet.rollout_slots import FleetState
from inference_operator.manifest import JOB, Manifest, Ref
from inference_operator.objects.adapter_list import adapter_list_ref
from inference_operator.objects.child import content_hash
from inference_operator.objects.names import ADAPTER, COMPONENT_LABEL
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned, Refused
from inference_operator.settings import Settings
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, pod_view
from tests.testing.adapters import adapted, records
from tests.testing.adapters import serving as serving_adapters
from tests.testing.builders import (
    BUDGET_OF_ROUTERS,
    ENGINES,
    ROUTERS,
    deployment_status,
    inference_deployment,
    inputs,
    pod,
    ready_pod,
)
from tests.testing.inspected import over
from tests.testing.verified import DIGEST, PUBLIC_KEY, REFERENCE, UNSIGNED, ended, signed_model, with_key

OWN = PUBLIC_KEY.replace("MFkw", "OWNS")
SENTENCE = "Ask platform@example.com."
SETTINGS = Settings(policy=AdministratorPolicy.model_validate({"signatures": {"key": OWN, "message": SENTENCE}}))
ENGINE_IMAGE = f"registry.example/vllm@{DIGEST.replace('0123', 'ffff')}"
ADAPTER_IMAGE = f"registry.example/adapters/sql@{DIGEST.replace('0123', 'aaaa')}"


def asked(**more: object) -> Inputs:
    raw = inference_deployment(hardware={"device": "CPU"})
    spec = {**raw["spec"], "model": {"source": f"oci://{REFERENCE}"}, **more}
    return inputs({**raw, "spec": spec}, settings=SETTINGS)


def jobs(found: Outcome) -> list[Manifest]:
    return [one for ref, one in found.desired.items() if ref.kind == JOB]


def arguments(job: Manifest) -> list[str]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def is_of_adapter(job: Manifest) -> bool:
    return bool(job["metadata"]["labels"][COMPONENT_LABEL] == ADAPTER)


def succeeded(observed: Inputs) -> Inputs:
    """The same, after all wanted Jobs have succeeded."""
    desired = outcome(observed).desired
    over_jobs = {ref: {**one, "status": over("Complete")} for ref, one in desired.items() if ref.kind == JOB}
    return replace(observed, children={**observed.children, **desired, **over_jobs})


def test_no_engine_starts_before_the_model_is_verified_with_the_owners_key() -> None:
    begun = asked()
    waiting = outcome(begun)
    assert isinstance(waiting, Planned)
    assert waiting.model_wait
    assert waiting.model_wait.reason is Reason.VERIFYING_MODEL
    assert (
        "verifies the signature of the image in `spec.model.source` with the key of this cluster's policy."
        in waiting.model_wait.message
    )
    assert ENGINES not in waiting.desired
    (job,) = jobs(waiting)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert {"name": "COSIGN_POLICY_KEY", "value": OWN} in container["env"]
    done = outcome(succeeded(begun))
    assert isinstance(done, Planned)
    assert (done.model_wait, ENGINES in done.desired) == (None, True)


def test_each_image_that_the_resource_names_has_a_job_of_its_own() -> None:
    volume = {"name": "data", "image": {"reference": f"registry.example/data@{DIGEST}"}}
    found = jobs(outcome(asked(engine={"image": ENGINE_IMAGE}, podTemplate={"volumes": [volume]})))
    assert {arguments(job)[-1] for job in found} == {f"registry.example/data@{DIGEST}", REFERENCE, ENGINE_IMAGE}


def job_of_image(found: Outcome, image: str) -> Manifest:
    (job,) = (one for one in jobs(found) if arguments(one)[-1] == image)
    return job


def test_a_refusal_names_the_field_of_the_image_and_ends_with_the_owners_sentence() -> None:
    begun = asked(engine={"image": ENGINE_IMAGE})
    found = outcome(ended(begun, job_of_image(outcome(begun), ENGINE_IMAGE), UNSIGNED))
    assert isinstance(found, Refused)
    assert (found.refusal.reason, found.refusal.field) == (Reason.VERIFICATION_FAILED, "spec.engine.image")
    assert "The policy of this cluster (`signatures`) requires a signature." in found.refusal.message
    assert f"{ENGINE_IMAGE}: has no signature in its registry." in found.refusal.message
    assert found.refusal.message.endswith(SENTENCE)
    assert ENGINES not in found.desired


def test_one_image_that_is_verified_starts_nothing_while_another_is_not() -> None:
    begun = asked(engine={"image": ENGINE_IMAGE})
    half = outcome(ended(begun, job_of_image(outcome(begun), REFERENCE), kind="Complete"))
    assert isinstance(half, Planned)
    assert half.model_wait
    assert "the image in `spec.engine.image`" in half.model_wait.message
    assert {ref.kind for ref in half.desired} == {JOB}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"model": {"source": "hf://Qwen/Qwen3-8B"}}, "spec.model.source"),
        ({"model": {"source": "oci://registry.example/models/qwen:1"}}, "spec.model.source"),
        ({"engine": {"image": "registry.example/vllm:1"}}, "spec.engine.image"),
        ({"engine": {"image": f"--key=https://evil.example/k@{DIGEST}"}}, "spec.engine.image"),
    ],
)
def test_anything_that_cannot_be_signed_is_refused_before_any_object_exists(spec: Manifest, field: str) -> None:
    found = outcome(asked(**spec))
    assert isinstance(found, Refused)
    assert (found.refusal.reason, found.refusal.field) == (Reason.REFUSED_BY_POLICY, field)
    assert not found.refusal.others
    assert found.desired == {}


def test_while_signatures_are_verified_nothing_moves_and_the_status_says_what_a_drain_does() -> None:
    begun = asked(router={"replicas": 1})
    serves = succeeded(begun)
    children = {**serves.children, **outcome(serves).desired}
    template = children[ROUTERS]["spec"]["template"]["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION]
    view = pod_view(pod(name="r", component="router", status=ready_pod()), component="router")
    on_leaving = replace(view, node="gone", template=template)
    without_jobs = {ref: one for ref, one in children.items() if ref.kind != JOB}
    leaving = {"gone": DrainingNode("gone", "which is cordoned")}
    found = outcome(replace(begun, children=without_jobs, pods=[on_leaving], leaving=leaving))
    assert isinstance(found, Planned)
    assert found.is_frozen
    assert found.desired[ROUTERS]["spec"]["replicas"] == 1
    assert found.desired[BUDGET_OF_ROUTERS]["spec"]["minAvailable"] == 0
    assert found.pods == ()
    assert "Pods on a node that is leaving do not move meanwhile: a drain ends them" in found.notice
    assert "starts before it ends" not in found.notice


def test_a_config_map_of_a_user_is_no_record() -> None:
    """Who may write ConfigMaps, but create no pods, cannot pass the requirement."""
    begun = asked()
    job = next(iter(jobs(outcome(begun))))
    metadata = {**job["metadata"], "name": f"{job['metadata']['name']}-record"}
    data = {"digest": DIGEST, "key": content_hash(OWN)}
    forged = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    found = outcome(replace(begun, children={Ref.of(forged): forged}))
    assert isinstance(found, Planned)
    assert found.model_wait
    assert ENGINES not in found.desired


def test_the_key_of_the_user_is_verified_beside_the_owners() -> None:
    begun = with_key(inputs(signed_model(), settings=SETTINGS))
    both = jobs(outcome(begun))
    assert len(both) == 2
    owner = next(one for one in both if "OWNS" in str(one))
    half = outcome(ended(begun, owner, kind="Complete"))
    assert isinstance(half, Planned)
    assert half.model_wait
    assert "with the key `cosign.pub` of the ConfigMap `keys`" in half.model_wait.message
    assert len(jobs(half)) == 2
    done = outcome(succeeded(begun))
    assert isinstance(done, Planned)
    assert (done.model_wait, len(jobs(done)), ENGINES in done.desired) == (None, 2, True)
    refused = outcome(with_key(succeeded(begun), ""))
    assert isinstance(refused, Refused)
    assert len(jobs(refused)) == 2


def serving(observed: Inputs) -> Inputs:
    done = succeeded(observed)
    children = outcome(done).desired
    engines = {**children[ENGINES], "status": deployment_status(1)}
    kept = {ref: one for ref, one in done.children.items() if ref.kind == JOB}
    return replace(done, children={**children, **kept, ENGINES: engines})


def test_another_key_of_the_owner_is_verified_while_engines_serve() -> None:
    running = serving(asked())
    rotated = AdministratorPolicy.model_validate({"signatures": {"key": PUBLIC_KEY}})
    found = outcome(replace(running, settings=Settings(policy=rotated)))
    assert isinstance(found, Planned)
    assert found.model_wait
    assert "The running engines serve" in found.model_wait.message
    assert found.desired[ENGINES] == running.children[ENGINES]


def test_a_requirement_that_is_newer_than_the_service_verifies_while_engines_serve() -> None:
    before = replace(asked(), settings=Settings())
    children = outcome(before).desired
    running = replace(before, children={**children, ENGINES: {**children[ENGINES], "status": deployment_status(1)}})
    found = outcome(replace(running, settings=SETTINGS))
    assert isinstance(found, Planned)
    assert found.model_wait
    assert (found.desired[ENGINES], len(jobs(found))) == (running.children[ENGINES], 1)


def test_the_owners_job_does_not_count_for_a_key_of_the_user_that_is_not_read_yet() -> None:
    begun = inputs(signed_model(), settings=SETTINGS)
    found = outcome(succeeded(begun))
    assert isinstance(found, Planned)
    assert found.model_wait
    assert (ENGINES in found.desired, len(jobs(found))) == (False, 1)


@pytest.mark.parametrize("failed", [False, True])
def test_an_unsigned_model_that_serves_keeps_its_engines_and_gets_none_from_zero(failed: bool) -> None:  # noqa: FBT001
    for before, wanted in ((0, 2), (1, 3), (2, 1)):
        older = replace(asked(replicas=before), settings=Settings())
        children = outcome(older).desired
        engines = {**children[ENGINES], "status": deployment_status(before)}
        scaled = replace(asked(replicas=wanted), children={**children, ENGINES: engines})
        found = outcome(scaled)
        if failed:
            found = outcome(ended(scaled, job_of_image(found, REFERENCE), UNSIGNED))
            assert isinstance(found, Refused)
        assert found.desired[ENGINES] == engines


def test_nothing_else_is_made_or_changed_before_the_owners_signatures_are_verified() -> None:
    """An image of a router runs no sooner than one of an engine."""
    sidecar = {"name": "a", "image": f"registry.example/a@{DIGEST}"}
    router = {"podTemplate": {"sidecars": [sidecar]}, "keys": {"secretRef": {"name": "users"}}}
    first = outcome(asked(router=router))
    assert {ref.kind for ref in first.desired} == {JOB}
    assert first.engine_key is None, "no Secret either"
    running = serving(asked())
    edited = replace(running, resource=asked(router=router).resource)
    found = outcome(edited)
    assert {ref: one for ref, one in found.desired.items() if ref.kind != JOB} == {
        ref: one for ref, one in running.children.items() if ref.kind != JOB
    }
    refused = outcome(ended(edited, job_of_image(found, sidecar["image"]), UNSIGNED))
    assert isinstance(refused, Refused)
    assert {ref for ref in refused.desired if ref.kind != JOB} == {ref for ref in running.children if ref.kind != JOB}


def test_no_adapter_is_copied_or_loaded_before_its_signature_is_verified() -> None:
    raw = adapted(
        "own",
        source=f"oci://{REFERENCE}",
        own={"source": f"oci://{ADAPTER_IMAGE}"},
        engine={"maxAdapterRank": 16},
    )
    running = serving_adapters(raw)
    running = replace(running, children={ref: one for ref, one in running.children.items() if ref.kind != JOB})
    assert [is_of_adapter(one) for one in jobs(outcome(running))] == [True], "without the policy, it is copied"
    required = replace(running, settings=SETTINGS)
    found = outcome(required)
    assert isinstance(found, Planned)
    assert found.model_wait
    assert {arguments(one)[-1] for one in jobs(found)} == {ADAPTER_IMAGE, REFERENCE}
    kept = adapter_list_ref(required.owner)
    assert found.desired[kept] == running.children[kept]
    assert [one.name for one in found.adapters] == ["own"]
    assert set(running.children) <= set(found.desired)
    verified = outcome(succeeded(required))
    assert isinstance(verified, Planned)
    assert verified.model_wait is None
    assert sorted(map(is_of_adapter, jobs(verified))) == [False, False, True]


def test_adapters_stay_while_only_the_users_own_key_is_verified_anew() -> None:
    raw = adapted("own", source=f"oci://{REFERENCE}", own={"source": f"oci://{ADAPTER_IMAGE}"})
    copies = records(raw)
    asking = {
        **raw,
        "spec": {**raw["spec"], "model": {**raw["spec"]["model"], "verify": {"configMapRef": {"name": "keys"}}}},
    }
    running = replace(serving_adapters(asking, copies, live=raw), settings=SETTINGS)
    done = with_key(succeeded(with_key(running)))
    rotated = outcome(with_key(done, PUBLIC_KEY.replace("MFkw", "AAAA")))
    assert isinstance(rotated, Planned)
    assert rotated.model_wait
    assert not rotated.is_frozen
    assert adapter_list_ref(running.owner) in rotated.desired
    assert {Ref.of(one) for one in copies} <= set(rotated.desired)


def test_a_resource_that_waits_for_a_signature_holds_no_place_in_a_rollout_of_the_owner() -> None:
    running = serving(asked())
    owners = Settings(
        policy=SETTINGS.policy,
        router_defaults={"podTemplate": {"annotations": {"a": "b"}}},
        rollouts={"maxConcurrent": 1},
    )
    rotated = owners.model_copy(
        update={"policy": AdministratorPolicy.model_validate({"signatures": {"key": PUBLIC_KEY}})}
    )
    assert outcome(replace(running, settings=rotated)).fleet_state is FleetState.UNDECIDED
