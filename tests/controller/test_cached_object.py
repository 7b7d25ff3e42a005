"""The cached form of an object: complete and compressed."""

import json

from hypothesis import given
from hypothesis import strategies as st

from inference_operator.controller.cached_object import MOST_DICTIONARIES, SEGMENT_BYTES, Codec
from inference_operator.manifest import Manifest
from inference_operator.objects.names import COMPONENT_LABEL
from inference_operator.views.pod import pod_view
from tests.status.situations import RAW
from tests.testing.builders import planned, pod, ready_pod

TEXT = st.text(max_size=4)
WHOLE = st.integers(-(2**63), 2**63 - 1)
"""The integers that the API server keeps exactly (kubernetes/apimachinery v0.36.3, pkg/util/json: int64)."""
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=20,
)


def children(name: str) -> list[Manifest]:
    return list(planned({**RAW, "metadata": {**RAW["metadata"], "name": name}}).desired.values())


def test_cached_children_are_complete_and_those_of_a_second_resource_take_a_tenth_of_their_size() -> None:
    codec = Codec()
    for name in ("one", "two"):
        asked = children(name)
        kept = [codec.pack(child) for child in asked]
        assert [one.manifest for one in kept] == asked
    assert sum(len(segment) for one in kept for segment in one.packed) < len(json.dumps(asked)) / 10


@given(JSON)
def test_a_cached_object_with_any_content_is_unpacked_unchanged(part: object) -> None:
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "b"},
        "data": part,
    }
    codec = Codec()
    assert [codec.pack(manifest).manifest for _ in range(2)] == [manifest, manifest]


def test_an_object_for_which_no_dictionary_is_left_is_unpacked_unchanged() -> None:
    codec = Codec()
    for number in range(MOST_DICTIONARIES + 2):
        meta = {"name": "a", "namespace": "b", "labels": {COMPONENT_LABEL: str(number)}}
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {"text": "x" * SEGMENT_BYTES * 3},
        }
        assert codec.pack(manifest).manifest == manifest


def test_labels_that_users_write_on_their_resources_take_no_dictionary_from_children() -> None:
    codec = Codec()
    for number in range(MOST_DICTIONARIES + 2):
        meta = {**RAW["metadata"], "labels": {COMPONENT_LABEL: str(number)}}
        codec.pack({**RAW, "metadata": meta})
    assert all(codec.pack(child).dictionary for child in children("one"))


def test_only_the_view_of_a_pod_is_cached() -> None:
    manifest = pod(status=ready_pod())
    one = Codec().pack(manifest)
    assert one.pod == pod_view(manifest, component="engine")
    assert one.packed == ()
