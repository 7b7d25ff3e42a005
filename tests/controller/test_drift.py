import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.controller.drift import first_drift
from tests.testing.builders import inference_deployment, planned

LEAVES = st.booleans() | st.integers() | st.text(max_size=5)
NAMED_LISTS = st.lists(
    st.fixed_dictionaries({"name": st.text(max_size=3), "value": LEAVES}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
DESIRED: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | NAMED_LISTS,
    max_leaves=12,
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.floats() | LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["name", "port", "key", "a"]), inner),
    max_leaves=12,
)


def covers(live: object, desired: object) -> bool:
    """Whether the live value contains every desired value."""
    return first_drift(live, desired) is None


def places(value: object) -> list[tuple[object, object]]:
    """Every (container, index) in a value."""
    if isinstance(value, dict):
        return [(value, k) for k in value] + [place for part in value.values() for place in places(part)]
    if isinstance(value, list):
        return [(value, i) for i in range(len(value))] + [place for part in value for place in places(part)]
    return []


@given(DESIRED)
def test_covers_is_true_for_every_value_and_itself(value: object) -> None:
    assert covers(copy.deepcopy(value), value)


@given(DESIRED, st.data())
def test_covers_is_false_for_a_live_value_that_lacks_or_changes_a_desired_leaf(
    value: object, data: st.DataObject
) -> None:
    live = copy.deepcopy(value)
    found: list[tuple[Any, Any]] = places(live)
    if not found:
        return
    container, index = data.draw(st.sampled_from(found))
    if data.draw(st.booleans()):
        container[index] = object()
    else:
        del container[index]
    assert not covers(live, value)


@given(DESIRED, st.data())
def test_fields_that_others_add_are_no_drift(value: object, data: st.DataObject) -> None:
    live = copy.deepcopy(value)
    for container, _ in places(live):
        if isinstance(container, dict) and data.draw(st.booleans()):
            container["added by somebody"] = data.draw(LEAVES)
    assert covers(live, value)


@given(NAMED_LISTS, st.data())
def test_list_items_that_others_add_and_their_order_are_no_drift(
    items: list[dict[str, object]], data: st.DataObject
) -> None:
    if items:
        live = [{"name": "a sidecar", "value": 1}, *data.draw(st.permutations(items))]
        assert covers(live, items)


@given(JSON, JSON)
def test_covers_accepts_any_live_value_without_an_error(live: object, desired: object) -> None:
    covers(live, desired)


@pytest.mark.parametrize(
    ("live", "desired", "where"),
    [
        ({"a": 1}, {"a": True}, ".a"),
        ({"a": "1"}, {"a": 1}, ".a"),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, ".a.c"),
        ({"a": None}, {"a": {}}, ".a"),
        ({}, {"a": []}, ".a"),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, ".a[0]"),
        ({"a": ["x", "y"]}, {"a": ["x"]}, ".a"),
        ({"ports": [{"name": "http", "port": 80}]}, {"ports": [{"name": "http", "port": 81}]}, ".ports[http].port"),
        ({"env": [{"name": "A"}]}, {"env": [{"name": "A"}, {"name": "B"}]}, ".env[B]"),
    ],
)
def test_first_drift_returns_the_path_of_the_first_drift(live: object, desired: object, where: str) -> None:
    assert first_drift(live, desired) == where


def test_a_change_of_any_leaf_of_any_child_is_drift() -> None:
    for manifest in planned(inference_deployment(replicas=2)).desired.values():
        live = copy.deepcopy(manifest)
        found: list[tuple[Any, Any]] = places(live)
        for container, index in found:
            kept = container[index]
            container[index] = object()
            assert not covers(live, manifest), f"{manifest['kind']}: {index}"
            container[index] = kept
        assert covers(live, manifest)


@pytest.mark.parametrize("field", ["selector", "labelSelector", "tolerations"])
def test_a_key_added_to_an_atomic_field_is_drift(field: str) -> None:
    asked: dict[str, object] = {"selector": {"a": "1"}, "labelSelector": {"matchLabels": {"a": "1"}}, "tolerations": []}
    added: dict[str, object] = {
        "selector": {"a": "1", "b": "2"},
        "labelSelector": {"matchLabels": {"a": "1", "b": "2"}},
        "tolerations": [{"operator": "Exists"}],
    }
    assert covers({field: asked[field]}, {field: asked[field]})
    assert not covers({field: added[field]}, {field: asked[field]})
