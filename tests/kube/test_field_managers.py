"""Whose fields an adopted object has."""

from typing import Any

import pytest

from inference_operator.kube.cluster import adopted_fields
from inference_operator.manifest import CLAIM, CONFIG_MAP, DEPLOYMENT, INGRESS, JOB, Kind

OURS = "inference-operator"
ADOPT, THEIRS = "f:inference-operator.dev/adopt", "f:example.com/theirs"
META: dict[str, Any] = {"f:metadata": {"f:annotations": {ADOPT: {}, THEIRS: {}}, "f:finalizers": {'v:"theirs"': {}}}}
LEFT: dict[str, Any] = {"f:metadata": {"f:annotations": {THEIRS: {}}, "f:finalizers": {'v:"theirs"': {}}}}
TAKEN: dict[str, Any] = {"f:metadata": {"f:annotations": {ADOPT: {}}}}


def entry(kind: Kind, fields: dict[str, Any], manager: str = "tool", **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "apiVersion": kind.api_version, "fieldsV1": fields, **more}


def own(kind: Kind, fields: dict[str, Any]) -> dict[str, Any]:
    return entry(kind, fields, OURS, operation="Apply", fieldsType="FieldsV1")


@pytest.mark.parametrize(
    ("kind", "left", "taken"),
    [
        (DEPLOYMENT, {"f:spec": {"f:replicas": {}}}, {"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}}),
        (CONFIG_MAP, {"f:immutable": {}}, {"f:data": {"f:a": {}}}),
        (INGRESS, {"f:spec": {"f:ingressClassName": {}, "f:rules": {}}}, {}),
        (JOB, {"f:spec": {"f:selector": {}, "f:template": {}}}, {}),
        (CLAIM, {"f:spec": {"f:volumeName": {}}}, {}),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
def test_of_what_others_have_made_only_the_content_and_our_annotations_become_ours(
    kind: Kind, left: dict[str, Any], taken: dict[str, Any]
) -> None:
    given = {part: {**left.get(part, {}), **taken.get(part, {})} for part in {**left, **taken}}
    found = adopted_fields([entry(kind, {**META, **given})], kind, OURS)
    assert found == [entry(kind, {**LEFT, **left}), own(kind, {**TAKEN, **taken})]


def test_the_managers_of_an_object_that_we_have_applied_keep_their_content() -> None:
    applied = own(CONFIG_MAP, {"f:data": {"f:a": {}}})
    theirs = entry(CONFIG_MAP, {**META, "f:data": {"f:b": {}}})
    found = adopted_fields([applied, theirs], CONFIG_MAP, OURS)
    both = own(CONFIG_MAP, {"f:data": {"f:a": {}}, **TAKEN})
    assert found == [entry(CONFIG_MAP, {**LEFT, "f:data": {"f:b": {}}}), both]


def test_what_was_written_through_a_subresource_or_in_another_version_stays() -> None:
    template: dict[str, Any] = {"f:spec": {"f:template": {"f:spec": {}}}}
    scaled = entry(DEPLOYMENT, template, subresource="scale")
    former = entry(DEPLOYMENT, template) | {"apiVersion": "extensions/v1beta1"}
    assert adopted_fields([scaled, former], DEPLOYMENT, OURS) == [scaled, former]


def test_what_we_have_updated_counts_as_applied() -> None:
    labels: dict[str, Any] = {"f:metadata": {"f:labels": {"f:a": {}}, "f:annotations": {ADOPT: {}}}}
    applied, updated = own(CONFIG_MAP, {"f:data": {"f:a": {}}}), entry(CONFIG_MAP, labels, OURS)
    assert adopted_fields([applied, updated], CONFIG_MAP, OURS) == [own(CONFIG_MAP, {"f:data": {"f:a": {}}, **labels})]


@pytest.mark.parametrize("more", [{"subresource": "scale"}, {"apiVersion": "extensions/v1beta1"}])
def test_our_annotations_become_ours_however_they_were_written(more: dict[str, Any]) -> None:
    found = adopted_fields([entry(DEPLOYMENT, META) | more], DEPLOYMENT, OURS)
    assert found == [entry(DEPLOYMENT, LEFT) | more, own(DEPLOYMENT, TAKEN)]


def test_fields_of_several_managers_are_joined() -> None:
    first, second = (entry(CONFIG_MAP, {"f:data": {f"f:{name}": {}}}, name) for name in "ab")
    assert adopted_fields([first, second], CONFIG_MAP, OURS) == [own(CONFIG_MAP, {"f:data": {"f:a": {}, "f:b": {}}})]
