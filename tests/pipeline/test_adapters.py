"""Adapters: the Jobs that copy them, whether they fit, the slots, and the list for engines and routers."""

from dataclasses import replace

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.api.status import AdapterPhase, AdapterStatus, Status
from inference_operator.manifest import DEPLOYMENT, JOB, Manifest
from inference_operator.models.adapter import AdapterFacts
from inference_operator.objects.adapter_list import AdapterList, adapter_list_ref, listed_adapters
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.views.pod import ADAPTERS_ANNOTATION
from tests.testing.adapters import CLAIM, adapted, content_of, engine_pod, listed, records, report_of, serving
from tests.testing.builders import ENGINES, inference_deployment, inputs, model_known

PATHS = {
    "one": f"/adapter-cache/pvc--files--one/snapshots/{content_of('one')}",
    "two": f"/adapter-cache/models--org--two/snapshots/{content_of('two')}",
}
ONE = {"one": PATHS["one"]}


def decided(observed: Inputs) -> Planned:
    found = outcome(observed)
    assert isinstance(found, Planned), found
    return found


def jobs(found: Planned) -> list[Manifest]:
    return [one for ref, one in found.desired.items() if ref.kind == JOB]


def the_list(observed: Inputs, found: Planned) -> AdapterList:
    return listed_adapters(found.desired[adapter_list_ref(observed.owner)])


def engine(found: Planned) -> Manifest:
    (workload,) = (one for ref, one in found.desired.items() if ref.kind == DEPLOYMENT and ref.name == "qwen-engine")
    pod: Manifest = workload["spec"]["template"]["spec"]
    return pod


def test_each_adapter_has_a_job_of_its_own_and_a_first_engine_waits_for_their_ranks() -> None:
    found = decided(inputs(adapted("one", "two")))
    assert [job["spec"]["template"]["spec"]["containers"][0]["command"][-1] for job in jobs(found)] == [
        "pvc://files/one",
        "hf://org/two",
    ]
    assert all("--adapter" in job["spec"]["template"]["spec"]["containers"][0]["args"] for job in jobs(found))
    assert ENGINES not in found.desired
    assert found.model_wait is not None
    assert "adapter `one`" in found.model_wait.message


def test_an_adapter_of_a_claim_is_copied_from_a_read_only_mount() -> None:
    (job,) = jobs(decided(inputs(adapted("one"))))
    pod = job["spec"]["template"]["spec"]
    assert {"name": "model", "persistentVolumeClaim": {"claimName": "files", "readOnly": True}} in pod["volumes"]
    assert "--folder=/models/one" in pod["containers"][0]["args"]


def test_no_engine_waits_where_the_rank_is_given() -> None:
    found = decided(inputs(adapted("one", engine={"maxAdapterRank": 32})))
    assert len(jobs(found)) == 1
    assert "--max-lora-rank=32" in engine(found)["containers"][0]["args"]


@pytest.mark.parametrize(("rank", "slots"), [(8, 16), (16, 16), (17, 32), (64, 64), (300, 320)])
def test_slots_hold_the_largest_adapter(rank: int, slots: int) -> None:
    raw = adapted("one", "two")
    found = decided(inputs(raw, children=records(raw, {"one": AdapterFacts(8), "two": AdapterFacts(rank)})))
    arguments = engine(found)["containers"][0]["args"]
    assert {"--enable-lora", "--max-loras=4", f"--max-lora-rank={slots}", "--max-cpu-loras=16"} <= set(arguments)


def test_engines_load_what_is_copied_in_a_container_beside_them_and_are_ready_after_it() -> None:
    raw = adapted("one")
    found = decided(inputs(raw, children=records(raw)))
    pod = engine(found)
    main, loader = pod["containers"]
    assert main["readinessProbe"]["httpGet"] == {"path": "/ready", "port": 8001}
    assert {"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "1"} in main["env"]
    assert {"name": "model-cache", "mountPath": "/adapter-cache", "subPath": "adapters/hub", "readOnly": True} in main[
        "volumeMounts"
    ]
    assert loader["command"][-1] == "/adapter-list/loaded.json"
    assert loader["volumeMounts"] == [{"name": "adapter-list", "mountPath": "/adapter-list", "readOnly": True}]
    assert the_list(inputs(raw), found).loaded == ONE


@pytest.mark.parametrize(
    ("before", "after"), [(("one",), ("one", "two")), (("one", "two"), ("two",)), (("two",), ("one",))]
)
def test_a_change_of_the_list_changes_no_pod(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    former, now = adapted(*before), adapted(*after)
    kept = records(adapted("one", "two"))
    changed = decided(serving(now, kept, live=former))
    assert engine(changed) == engine(decided(serving(former, kept)))
    assert set(the_list(inputs(now), changed).loaded) == set(after)


def test_a_larger_adapter_than_the_slots_restarts_the_engines() -> None:
    large = records(adapted("one", "two"), {"one": AdapterFacts(8), "two": AdapterFacts(64)})
    found = decided(serving(adapted("one", "two"), large, live=adapted("one")))
    assert "--max-lora-rank=64" in engine(found)["containers"][0]["args"]


def test_a_larger_adapter_than_the_slots_that_were_asked_for_is_refused_alone() -> None:
    raw = adapted("one", "two", engine={"maxAdapterRank": 16})
    large = records(raw, {"one": AdapterFacts(8), "two": AdapterFacts(64)})
    found = decided(serving(raw, large))
    refused = found.adapters[1].refusal
    assert refused is not None
    assert refused.field == "spec.model.adapters[two].source"
    assert "rank 64" in refused.problem
    assert the_list(inputs(raw), found).loaded == ONE


def test_an_adapter_of_another_base_model_is_refused_alone() -> None:
    raw = adapted("one", "two", source="hf://Qwen/Qwen3-8B")
    facts = {"one": AdapterFacts(8, "org/other"), "two": AdapterFacts(8, "Qwen/Qwen3-8B-FP8", 4096, 36)}
    found = decided(inputs(raw, children=[*records(raw, facts), model_known(raw)]))
    refused, fits = found.adapters
    assert refused.refusal is not None
    assert "another base model, `org/other`" in refused.refusal.problem
    assert fits.refusal is None
    assert fits.path == PATHS["two"]


def test_a_refused_edit_leaves_the_former_files_to_the_engines() -> None:
    raw = adapted("one", engine={"maxAdapterRank": 16})
    large = records(raw, {"one": AdapterFacts(64)})
    found = decided(serving(raw, [*large, listed(raw, {"one": "/adapter-cache/former"}, ["one"])]))
    assert found.adapters[0].refusal is not None
    assert the_list(inputs(raw), found).loaded == {"one": "/adapter-cache/former"}


def test_an_adapter_of_the_former_model_goes_with_it() -> None:
    raw = adapted("one", source="hf://Qwen/Qwen3-8B")
    kept = [*records(raw, {"one": AdapterFacts(8, "org/former")}), listed(raw, ONE, ["one"]), model_known(raw)]
    found = decided(inputs(raw, children=kept))
    assert found.adapters[0].refusal is not None
    assert the_list(inputs(raw), found).loaded == {}


@pytest.mark.parametrize("name", ["qwen", "Qwen/Qwen3-8B"])
def test_an_adapter_cannot_have_a_name_of_the_model(name: str) -> None:
    raw = adapted(name, "one", source="hf://Qwen/Qwen3-8B", engine={"maxAdapterRank": 16})
    found = decided(inputs(raw, children=[*records(raw), model_known(raw)]))
    refused, other = found.adapters
    assert refused.refusal is not None
    assert refused.refusal.field == f"spec.model.adapters[{name}].name"
    assert other.refusal is None
    assert set(the_list(inputs(raw), found).loaded) == {"one"}


def test_routers_advertise_what_every_ready_engine_has_loaded() -> None:
    raw = adapted("one", "two")
    kept = [*records(raw), listed(raw, PATHS)]
    pods = [engine_pod("a"), engine_pod("b")]
    reports = {"a": report_of(PATHS, ("one", "two")), "b": report_of(PATHS, ("one",), failed=("two",))}
    observed = serving(raw, kept, pods=pods, reports=reports)
    assert the_list(observed, decided(observed)).advertised == ("one",)
    assert not decided(observed).awaits_adapters


def test_an_engine_that_has_told_nothing_yet_takes_no_adapter_away_and_adds_none() -> None:
    raw = adapted("one", "two")
    kept = [*records(raw), listed(raw, PATHS, ["one"])]
    observed = serving(raw, kept, pods=[engine_pod("a"), engine_pod("b")], reports={"a": report_of(PATHS, PATHS)})
    assert the_list(observed, decided(observed)).advertised == ("one",)
    assert decided(observed).awaits_adapters


def test_at_zero_routers_advertise_what_engines_would_load_but_nothing_that_failed() -> None:
    raw = adapted("one", "two")
    failed = AdapterStatus(name="two", phase=AdapterPhase.FAILED)
    observed = serving(raw, records(raw), before=Status(adapters=(failed,)))
    observed = replace(observed, pods=())
    assert the_list(observed, decided(observed)).advertised == ("one",)


def test_pods_are_told_of_a_list_once_it_is_written_and_once_more_if_they_did_not_get_it() -> None:
    raw = adapted("one")
    before = serving(raw, [*records(raw), listed(raw, {})])
    assert decided(before).pods == ()
    assert decided(before).due is not None
    reports = {"qwen-engine-a": report_of({}, ())}
    written = serving(raw, [*records(raw), listed(raw, ONE)], reports=reports)
    (update,) = decided(written).pods
    told = replace(written, pods=(engine_pod(told=update.annotations[ADAPTERS_ANNOTATION]),))
    (again,) = decided(told).pods
    assert again.annotations == {ADAPTERS_ANNOTATION: f"{update.annotations[ADAPTERS_ANNOTATION]}-2"}
    has = replace(told, pods=(engine_pod(told=again.annotations[ADAPTERS_ANNOTATION]),))
    assert decided(has).pods == ()


def test_without_adapters_nothing_of_them_exists() -> None:
    found = decided(inputs(inference_deployment(model={"source": "oci://a.b/c:1"}, hardware={"device": "CPU"})))
    assert found.adapters == ()
    assert adapter_list_ref(inputs(adapted()).owner) not in found.desired
    assert len(engine(found)["containers"]) == 1


def test_slots_without_an_adapter_let_the_first_one_come_without_a_restart() -> None:
    slots = {"adapterSlots": 2, "maxAdapterRank": 16}
    former, now = adapted(engine=slots), adapted("one", engine=slots)
    kept = records(now)
    assert engine(decided(serving(now, kept, live=former))) == engine(decided(serving(former, kept)))
    assert engine(decided(serving(former, kept, live=now))) == engine(decided(serving(now, kept)))


def test_a_claim_beside_a_model_of_an_image_is_made_for_the_adapters_alone() -> None:
    raw = adapted("one")
    raw = {**raw, "spec": {**raw["spec"], "cache": {}}}
    found = decided(inputs(raw))
    claim = found.desired[next(ref for ref in found.desired if ref.kind.name == "PersistentVolumeClaim")]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert not [ref for ref in found.desired if ref.kind == JOB and "-cache-" in ref.name]


def test_arguments_about_adapters_are_refused_beside_the_fields() -> None:
    found = outcome(inputs(adapted("one", engine={"args": ["--enable-lora"]})))
    assert isinstance(found, Refused)
    assert found.refusal.reason is Reason.MANAGED_ARGUMENT


@pytest.mark.parametrize(
    "added",
    [
        {"sidecars": [{"name": "adapters", "image": "example.com/x:1"}]},
        {"volumes": [{"name": "adapter-list", "emptyDir": {}}]},
        {
            "volumes": [{"name": "mine", "emptyDir": {}}],
            "volumeMounts": [{"name": "mine", "mountPath": "/adapter-cache"}],
        },
    ],
)
def test_additions_that_take_the_place_of_adapters_are_refused_beside_them_only(added: Manifest) -> None:
    raw = adapted("one", engine={"maxAdapterRank": 16})
    found = outcome(inputs({**raw, "spec": {**raw["spec"], "podTemplate": added}}))
    assert isinstance(found, Refused)
    assert found.refusal.field.startswith("spec.podTemplate")
    alone = inference_deployment(model={"source": "oci://a.b/c:1"}, hardware={"device": "CPU"}, podTemplate=added)
    assert isinstance(outcome(inputs(alone)), Planned)


def test_the_claim_of_another_resource_keeps_records_apart() -> None:
    raw = adapted("one")
    other = {**raw, "spec": {**raw["spec"], "cache": {"claimName": f"{CLAIM}-2"}}}
    assert jobs(decided(inputs(other, children=records(raw))))
