"""What is kept of an object says the same as the object, and holds less."""

import json

from hypothesis import given
from hypothesis import strategies as st

from inference_operator.manifest import Manifest
from inference_operator.observed.pod import pod_view
from inference_operator.reconcile.kept import kept
from tests.builders import planned, pod, ready_pod
from tests.status.situations import RAW

TEXT = st.text(max_size=4)
WHOLE = st.integers(-(2**63), 2**63 - 1)
"""What the API server keeps whole (kubernetes/apimachinery v0.36.3, pkg/util/json: int64)."""
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=20,
)


def test_children_are_kept_whole_in_half_of_their_size() -> None:
    children = list(planned(RAW).desired.values())
    assert [kept(child).manifest for child in children] == children
    assert sum(len(kept(child).packed) for child in children) < len(json.dumps(children)) / 2


@given(JSON)
def test_whatever_an_object_holds_is_kept(part: object) -> None:
    manifest: Manifest = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": part}
    assert kept(manifest).manifest == manifest


def test_of_a_pod_only_what_is_read_is_kept() -> None:
    manifest = pod(status=ready_pod())
    one = kept(manifest)
    assert one.pod == pod_view(manifest, component="engine")
    assert one.packed == b""
