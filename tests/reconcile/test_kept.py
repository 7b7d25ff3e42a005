"""What is kept of an object says the same as the object, and holds less."""

import json

from hypothesis import given
from hypothesis import strategies as st

from inference_operator.manifest import Manifest
from inference_operator.observed.pod import pod_view
from inference_operator.reconcile.kept import Keeper
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


def children(name: str) -> list[Manifest]:
    return list(planned({**RAW, "metadata": {**RAW["metadata"], "name": name}}).desired.values())


def test_children_are_kept_whole_and_those_of_the_next_resource_in_a_fifth_of_their_size() -> None:
    keeper = Keeper()
    for name in ("one", "two"):
        asked = children(name)
        kept = [keeper.keep(child) for child in asked]
        assert [one.manifest for one in kept] == asked
    assert sum(len(one.packed) for one in kept) < len(json.dumps(asked)) / 5


@given(JSON)
def test_whatever_an_object_holds_is_kept(part: object) -> None:
    manifest: Manifest = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": part}
    keeper = Keeper()
    assert [keeper.keep(manifest).manifest for _ in range(2)] == [manifest, manifest]


def test_of_a_pod_only_what_is_read_is_kept() -> None:
    manifest = pod(status=ready_pod())
    one = Keeper().keep(manifest)
    assert one.pod == pod_view(manifest, component="engine")
    assert one.packed == b""
