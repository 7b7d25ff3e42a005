"""Large buffers: only where a body is read, larger than usual ones, and bounded by the memory."""

import re
from dataclasses import replace

import pytest

from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.router.haproxy import haproxy_cfg
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.long_bodies import LONGEST_BYTES, OF_THREAD, SEARCHED_BYTES, large_memory, values
from inference_operator.router.resources import HEADER_BYTES, memory, threads
from tests.router.test_haproxy import REQUEST

ADAPTED = replace(REQUEST, upstreams=tuple(replace(one, has_adapters=True) for one in REQUEST.upstreams))
AFFINE = RouterSpec(strategy=RouterStrategy.PREFIX_AFFINITY)
LIMITS = [("1", "16Mi"), ("1", "512Mi"), ("4", "64Mi"), ("64", "32Mi"), ("128", "16Mi"), ("128", "64Mi"), ("8", "64Gi")]


def _sizes(inputs: RouterInputs) -> dict[str, int]:
    return {name: int(size) for name, size in re.findall(r"tune\.(bufsize\S*) (\d+)", haproxy_cfg(inputs))}


@pytest.mark.parametrize(
    ("inputs", "read", "bodies"),
    [
        (replace(REQUEST, spec=RouterSpec()), 0, 0),
        (replace(REQUEST, spec=AFFINE), SEARCHED_BYTES, 57),
        (replace(ADAPTED, spec=RouterSpec()), LONGEST_BYTES, 3),
        (replace(ADAPTED, spec=AFFINE), LONGEST_BYTES, 3),
    ],
    ids=["neither", "affinity", "adapters", "both"],
)
def test_bodies_are_read_as_far_as_somebody_needs_them(inputs: RouterInputs, read: int, bodies: int) -> None:
    assert _sizes(inputs).get("bufsize.large", 0) == (read and read + HEADER_BYTES)
    assert (values(inputs) or {"bodies": 0})["bodies"] == bodies


@pytest.mark.parametrize(("cpu", "limit"), LIMITS)
@pytest.mark.parametrize("inputs", [REQUEST, ADAPTED], ids=["affinity", "adapters"])
def test_large_buffers_fit_their_memory_and_haproxy_accepts_their_size(
    inputs: RouterInputs, cpu: str, limit: str
) -> None:
    limits = {"limits": {"cpu": cpu, "memory": limit}}
    inputs = replace(inputs, spec=RouterSpec.model_validate({"strategy": "PrefixAffinity", "resources": limits}))
    if large := values(inputs):
        size, bodies = _sizes(inputs)["bufsize.large"], large["bodies"]
        assert size > _sizes(inputs)["bufsize"], "HAProxy ends otherwise"
        assert isinstance(bodies, int)
        assert bodies >= 1
        assert (bodies + OF_THREAD * threads(inputs.spec.resources)) * size <= large_memory(inputs)
        assert large_memory(inputs) <= memory(inputs.spec.resources) // 4
    else:
        assert "use-large-buffer" not in haproxy_cfg(inputs)
