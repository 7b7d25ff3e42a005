"""Two roles of one InferenceDeployment are sized, scaled, rolled, drained and counted apart, and share one model."""

from dataclasses import replace
from typing import Any

from inference_operator.api.reasons import ConditionType
from inference_operator.api.resource import resource
from inference_operator.api.status import Status
from inference_operator.autoscaling.decision import Bound, Decision, Terms
from inference_operator.autoscaling.inputs import ScalingResult
from inference_operator.controller.changes import Delete, changes
from inference_operator.controller.sample_store import ScalingStore
from inference_operator.manifest import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    SERVICE,
    Manifest,
    Ref,
)
from inference_operator.objects.names import ENGINE
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.status.report import report
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, PodView, pod_view
from inference_operator.workload.eviction.drain import DRAINING_COST, MOVE_ANNOTATION
from tests.testing.builders import (
    CONFIG,
    ENGINES,
    KEY,
    deployment_status,
    inference_deployment,
    inputs,
    model_known,
    pod,
    ready_pod,
)
from tests.testing.second_engine import BOTH, HELPER, HELPER_REPLICAS, helper_annotation, two_roles

HELPERS = Ref(DEPLOYMENT, KEY.namespace, "qwen-helper")
MAIN_SERVICE = Ref(SERVICE, KEY.namespace, "qwen")
HPA = Ref(HORIZONTAL_POD_AUTOSCALER, KEY.namespace, "qwen")
SCALED = {"minReplicas": 1, "maxReplicas": 6}
DECISION = Decision(5, Bound.DEMAND, Terms(8, 6, 0), target_concurrency=8)


def asked(own: Manifest | None = None, **spec: Any) -> Manifest:  # noqa: ANN401 - fields of the specification
    """A resource with two roles; the second one has these fields of its own."""
    return inference_deployment(podTemplate=helper_annotation({} if own is None else own), **spec)


def one_role(**spec: Any) -> Manifest:  # noqa: ANN401 - fields of the specification
    return inference_deployment(podTemplate=helper_annotation(None), **spec)


def given(raw: Manifest, *children: Manifest, **more: object) -> Inputs:
    return replace(inputs(raw, children=children), engines=BOTH, roles=two_roles, **more)  # type: ignore[arg-type]


def planned(found: Inputs) -> Planned:
    result = outcome(found)
    assert isinstance(result, Planned), result
    return result


def living(result: Planned) -> list[Manifest]:
    """The desired objects as the API server has them, with all engines ready."""
    return [_live(manifest, number) for number, manifest in enumerate(result.desired.values())]


def _live(manifest: Manifest, number: int) -> Manifest:
    live = {**manifest, "metadata": {**manifest["metadata"], "uid": f"uid-{number}", "generation": 1}}
    count = manifest.get("spec", {}).get("replicas")
    return live if count is None else {**live, "status": deployment_status(count)}


def template_of(result: Planned, ref: Ref) -> str:
    annotations = result.desired[ref]["spec"]["template"]["metadata"]["annotations"]
    return str(annotations[TEMPLATE_HASH_ANNOTATION])


def engine(result: Planned, role: str, name: str, node: str) -> PodView:
    view = pod_view(pod(name=name, component=role, status=ready_pod()), component=role)
    return replace(view, node=node, template=template_of(result, HELPERS if role == HELPER else ENGINES))


def replicas(result: Planned) -> tuple[int, int]:
    first, second = (result.desired[ref]["spec"]["replicas"] for ref in (ENGINES, HELPERS))
    return first, second


def with_status(raw: Manifest, status: Status) -> Manifest:
    return {**raw, "status": status.dump()}


def test_a_decision_of_autoscaling_changes_the_number_of_its_own_role() -> None:
    raw = asked({"autoscaling": SCALED}, replicas=2)
    assert replicas(planned(given(raw))) == (2, HELPER_REPLICAS)
    helper = ScalingResult(DECISION)
    assert replicas(planned(given(raw, scaling={HELPER: helper}))) == (2, 5)
    both = asked({"autoscaling": SCALED}, autoscaling={"minReplicas": 0, "maxReplicas": 3})
    assert replicas(planned(given(both, scaling={HELPER: helper, ENGINE: helper}))) == (3, 5)


def test_each_role_has_parameters_a_target_and_a_state_of_its_own() -> None:
    raw = asked({"autoscaling": {**SCALED, "targetConcurrency": 7}}, autoscaling=SCALED, replicas=2)
    result = planned(given(raw))
    assert [(each.role, each.has_scale, each.share) for each in result.scaling] == [
        (ENGINE, True, 2 / 5),
        (HELPER, False, 3 / 5),
    ]
    assert result.targets[HELPER].concurrency == 7 != result.targets[ENGINE].concurrency
    store = ScalingStore()
    store.want(KEY, result.scaling)
    assert [each.role for each in store.inputs(KEY)] == [ENGINE, HELPER]
    store.want(KEY, result.scaling[1:])
    assert [each.role for each in store.inputs(KEY)] == [HELPER]


def test_the_last_decision_about_each_role_is_read_from_its_part_of_the_status() -> None:
    raw = asked({"autoscaling": SCALED}, autoscaling=SCALED)
    first = planned(given(raw, scaling={HELPER: ScalingResult(DECISION)}))
    children = living(first)
    said = report(given(raw, *children, scaling={HELPER: ScalingResult(DECISION)}), first, []).status
    assert said.autoscaling == said.of_role(ENGINE, has_scale=True).autoscaling
    assert [(role.name, role.autoscaling and role.autoscaling.desired_replicas) for role in said.roles] == [
        (ENGINE, 1),
        (HELPER, 5),
    ]
    restarted = planned(given(with_status(raw, said), *children))
    assert replicas(restarted) == (1, 5), "a new process keeps the numbers"


def test_scale_is_about_the_role_that_says_so() -> None:
    raw = asked({"autoscaling": {**SCALED, "backend": "HPA"}}, autoscaling={**SCALED, "backend": "HPA"})
    result = planned(given(raw))
    assert result.desired[HPA]["metadata"]["labels"]["app.kubernetes.io/component"] == ENGINE
    assert [role.scaling.external is not None for role in result.roles] == [True, False]
    status = report(given(raw, *living(result)), result, []).status
    assert status.selector == "app.kubernetes.io/component=engine,inference-operator.dev/name=qwen"
    assert (status.replicas, [role.replicas for role in status.roles]) == (1, [1, 3])


def test_without_a_valid_specification_the_status_still_tells_which_role_has_scale() -> None:
    raw = asked()
    result = planned(given(raw))
    children = living(result)
    before = report(given(raw, *children), result, []).status
    broken = with_status({**raw, "spec": {**raw["spec"], "replicas": "many"}}, before)
    refused = outcome(given(broken, *children))
    assert isinstance(refused, Refused)
    after = report(given(broken, *children), refused, []).status
    assert (after.selector, after.replicas, after.plan) == (before.selector, before.replicas, before.plan)
    assert after.roles == before.roles


def test_the_status_has_roles_only_where_there_are_several() -> None:
    both, alone = (planned(given(raw)) for raw in (asked(), one_role()))
    status = report(given(asked(), *living(both)), both, []).status
    assert [(role.name, role.ready_replicas, role.engine and role.engine.kind) for role in status.roles] == [
        (ENGINE, 1, "VLLM"),
        (HELPER, HELPER_REPLICAS, "ECHO"),
    ]
    sizes = [role.plan.tensor_parallel_size for role in status.roles if role.plan]
    assert (status.ready, status.gpus, sizes) == ("4/4", "1xH100-80GB, 2xH100-80GB", [1, 2])
    assert "roles" not in report(given(one_role(), *living(alone)), alone, []).status.dump()


def test_an_image_of_one_role_rolls_that_role_alone() -> None:
    before = planned(given(asked()))
    after = planned(given(asked({"engine": {"image": "registry.example/echo:2"}}), *living(before)))
    assert template_of(after, ENGINES) == template_of(before, ENGINES)
    assert template_of(after, HELPERS) != template_of(before, HELPERS)
    drifted = [ref for ref in after.desired if after.desired[ref] != before.desired.get(ref) and ref.kind == DEPLOYMENT]
    assert drifted == [HELPERS]
    plans = [PLAN_ANNOTATION.read(found.desired[ENGINES]) for found in (before, after)]
    assert plans[0] == plans[1]


def test_a_node_that_leaves_moves_the_engines_of_one_role() -> None:
    raw = asked({"replicas": 1})
    first = planned(given(raw))
    pods = (engine(first, ENGINE, "a", "good"), engine(first, HELPER, "h", "gone"))
    leaving = {"gone": DrainingNode("gone", "which is cordoned")}
    moved = planned(given(raw, *living(first), pods=pods, leaving=leaving))
    assert replicas(moved) == (1, 2)
    assert [MOVE_ANNOTATION.key in moved.desired[ref]["metadata"]["annotations"] for ref in (ENGINES, HELPERS)] == [
        False,
        True,
    ]
    assert {patch.pod.name: patch.deletion_cost for patch in moved.pods} == {"h": DRAINING_COST}
    budgets = {
        role: moved.desired[Ref(DISRUPTION_BUDGET, KEY.namespace, f"qwen-{role}")]["spec"]["minAvailable"]
        for role in (ENGINE, HELPER)
    }
    assert budgets == {ENGINE: 1, HELPER: 1}


def test_the_ready_engines_of_one_role_do_not_stand_for_those_of_another() -> None:
    raw = asked()
    result = planned(given(raw))
    dead = [
        {**child, "status": deployment_status(HELPER_REPLICAS, ready=0)} if Ref.of(child) == HELPERS else child
        for child in living(result)
    ]
    status = report(given(raw, *dead), result, []).status
    assert [(role.name, role.ready_replicas) for role in status.roles] == [(ENGINE, 1), (HELPER, 0)]
    ready = status.condition(ConditionType.READY)
    assert (status.ready, ready and ready.status) == ("0/4", "False")


def test_a_role_that_goes_goes_with_its_objects() -> None:
    before = planned(given(asked({"autoscaling": SCALED})))
    live = {Ref.of(child): child for child in living(before)}
    after = planned(given(one_role(), *live.values()))
    deleted = {
        change.ref
        for change in changes(live, after.desired, after.pods, resource(asked()).owner)
        if isinstance(change, Delete)
    }
    helpers = {ref for ref in before.desired if ref.name in {"qwen-helper", "qwen-helpers"}}
    assert deleted == helpers
    assert {ref.kind for ref in helpers} == {DEPLOYMENT, SERVICE, DISRUPTION_BUDGET}
    assert [each.role for each in after.scaling] == []
    assert "helper_" not in after.desired[CONFIG]["data"]["haproxy.cfg"]


def test_a_role_of_weight_zero_gets_no_requests_of_the_router_and_is_scaled_by_its_own_engines() -> None:
    raw = asked({"weight": 0, "autoscaling": SCALED}, autoscaling=SCALED)
    result = planned(given(raw))
    config = result.desired[CONFIG]["data"]["haproxy.cfg"]
    assert "qwen-helpers" not in config
    assert "server-template e 32 qwen-engines" in config
    assert [(each.role, each.share, each.bypasses_routers) for each in result.scaling] == [
        (ENGINE, 1.0, False),
        (HELPER, 0.0, True),
    ]


def test_a_load_balancer_of_others_finds_the_engines_of_all_roles() -> None:
    result = planned(given(asked(router={"strategy": "External"})))
    service = result.desired[MAIN_SERVICE]["spec"]
    assert "app.kubernetes.io/component" not in service["selector"]
    assert {"inference-operator.dev/name": "qwen"}.items() < service["selector"].items()
    assert service["ports"] == [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]
    live = given(asked(router={"strategy": "External"}), *living(result))
    assert live.bypasses_routers
    assert report(live, planned(live), []).status.condition(ConditionType.READY)


def test_one_model_is_read_and_downloaded_for_all_roles_with_a_folder_of_kernels_for_each() -> None:
    raw = asked(cache={"size": "40Gi", "accessMode": "ReadWriteMany"})
    result = planned(given(raw, model_known(raw, commit="0" * 40)))
    jobs = {ref: manifest for ref, manifest in result.desired.items() if ref.kind == JOB}
    (download,) = jobs.values()
    arguments = download["spec"]["template"]["spec"]["containers"][0]["args"]
    kernels = [text for text in arguments if text.startswith("--kernels=")]
    assert len(kernels) == len(set(kernels)) == 2
    assert not {ENGINES, HELPERS} & result.desired.keys(), "no role starts before the model is there"
