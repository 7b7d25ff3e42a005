"""Gang schedulers: when each is used, and what its groups carry, through the whole pipeline."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.manifest import COSCHEDULING_GROUP, STATEFUL_SET, VOLCANO_GROUP, Kind, Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.workload.gang import COSCHEDULING, gang_of
from tests.testing.builders import inference_deployment, inputs

SET = Ref(STATEFUL_SET, "default", "qwen-engine-0")
GROUP, OF_VOLCANO = Ref(COSCHEDULING_GROUP, "default", SET.name), Ref(VOLCANO_GROUP, "default", SET.name)
BOTH = (GROUP, OF_VOLCANO)
NAMED = {"schedulerName": "gpus"}
MISSING: Mapping[Kind, str] = {COSCHEDULING_GROUP: "it is not installed.", VOLCANO_GROUP: "it is not installed."}


def raw(scheduling: Manifest, *, nodes: int = 2, **spec: Any) -> Manifest:  # noqa: ANN401 - fields of a specification
    return inference_deployment(parallelism={"tensor": 1, "nodes": nodes}, scheduling=scheduling, **spec)


def desired(
    resource: Manifest, live: Mapping[Ref, Manifest] | None = None, unavailable: Mapping[Kind, str] | None = None
) -> Mapping[Ref, Manifest]:
    children = [
        {**one, "metadata": {"uid": "7", "creationTimestamp": "2026-01-01T00:00:00Z", **one["metadata"]}}
        for one in (live or {}).values()
    ]
    found = outcome(replace(inputs(resource, children=children), unavailable_kinds=unavailable or {}))
    assert isinstance(found, Planned), found
    return found.desired


def template(found: Mapping[Ref, Manifest]) -> Manifest:
    result: Manifest = found[SET]["spec"]["template"]
    return result


def test_coscheduling_gets_a_pod_group_before_its_pods_and_a_label_on_them() -> None:
    found = desired(raw(NAMED))
    assert found[GROUP]["spec"] == {"minMember": 2}
    assert template(found)["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == SET.name
    assert template(found)["spec"]["schedulerName"] == "gpus"
    assert list(found).index(GROUP) < list(found).index(SET)
    assert found[GROUP]["metadata"]["ownerReferences"] == found[SET]["metadata"]["ownerReferences"]
    assert found[GROUP]["metadata"]["labels"].items() <= found[SET]["metadata"]["labels"].items()
    assert OF_VOLCANO not in found


def test_volcano_gets_its_own_pod_group_with_queue_and_priority() -> None:
    found = desired(raw({"schedulerName": "volcano"}))
    assert found[OF_VOLCANO]["spec"] == {"minMember": 2, "queue": "default"}
    assert template(found)["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == SET.name
    assert GROUP not in found
    queued = desired(
        raw(
            {"schedulerName": "volcano", "priorityClassName": "high"},
            podTemplate={"annotations": {"scheduling.volcano.sh/queue-name": "team-a"}},
        )
    )
    assert queued[OF_VOLCANO]["spec"] == {"minMember": 2, "queue": "team-a", "priorityClassName": "high"}


WITHOUT: dict[str, tuple[Manifest, Mapping[Kind, str]]] = {
    "no scheduler is named": (raw({}), {}),
    "off": (raw({**NAMED, "gang": "Off"}), {}),
    "no CRD": (raw(NAMED), MISSING),
    "the CRD of another one": (raw({"schedulerName": "volcano"}), {VOLCANO_GROUP: "it is not installed."}),
    "a queue of Kueue, which admits groups": (raw({**NAMED, "queueName": "team-a"}), {}),
    "one node": (raw(NAMED, nodes=1), {}),
}


@pytest.mark.parametrize(("resource", "unavailable"), WITHOUT.values(), ids=WITHOUT.keys())
def test_nothing_is_added_if(resource: Manifest, unavailable: Mapping[Kind, str]) -> None:
    found = desired(resource, unavailable=unavailable)
    assert not set(BOTH) & set(found)
    assert all(gang_of(one) is None for ref, one in found.items() if ref.kind == STATEFUL_SET)


def test_kueue_sees_its_queue_on_the_stateful_set_of_each_group() -> None:
    found = desired(raw({"queueName": "team-a"}, replicas=2))
    sets = [one for ref, one in found.items() if ref.kind == STATEFUL_SET]
    assert [one["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] for one in sets] == ["team-a", "team-a"]


def test_each_engine_has_a_pod_group_and_none_has_one_without_pods() -> None:
    two = desired(raw(NAMED, replicas=2))
    assert {ref.name for ref in two if ref.kind == COSCHEDULING_GROUP} == {"qwen-engine-0", "qwen-engine-1"}
    off = desired(raw(NAMED, replicas=0), live=two)
    (kept,) = (one for ref, one in off.items() if ref.kind == STATEFUL_SET)
    assert kept["spec"]["replicas"] == 0
    assert gang_of(kept) is not None
    assert not [ref for ref in off if ref.kind == COSCHEDULING_GROUP]
    again = desired(raw(NAMED, replicas=1), live=off)
    assert {ref.name for ref in again if ref.kind == COSCHEDULING_GROUP} == {kept["metadata"]["name"]}


def test_a_group_keeps_what_it_was_created_with_while_crds_come_and_go() -> None:
    plain, placed = desired(raw(NAMED), unavailable=MISSING), desired(raw(NAMED))
    assert template(desired(raw(NAMED), live=plain)) == template(plain)
    gone = desired(raw(NAMED), live=placed, unavailable=MISSING)
    assert template(gone) == template(placed)
    assert gone[GROUP]["spec"] == placed[GROUP]["spec"]
    without_object = {ref: one for ref, one in placed.items() if ref != GROUP}
    assert GROUP not in desired(raw(NAMED), live=without_object, unavailable=MISSING)


def test_another_choice_is_for_new_groups() -> None:
    placed = desired(raw(NAMED))
    off = desired(raw({**NAMED, "gang": "Off"}, replicas=2), live=placed)
    new = Ref(STATEFUL_SET, "default", "qwen-engine-1")
    assert (gang_of(off[SET]), gang_of(off[new])) == (COSCHEDULING, None)
    assert {ref.name for ref in off if ref.kind == COSCHEDULING_GROUP} == {SET.name}
