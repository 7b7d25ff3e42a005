import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.router import RouterSpec
from inference_operator.quantity import canonical, value
from inference_operator.router.clients import process_connections
from inference_operator.router.resources import (
    MOST_CONNECTIONS,
    MOST_THREADS,
    buffer_bytes,
    buffered_body_bytes,
    buffered_requests,
    connections,
    hot_bytes,
    process_resources,
    refusal_of_router_resources,
    threads,
)
from tests.testing.builders import CONFIG, ENGINES, ROUTERS, inference_deployment, planned

LIMITED = ResourcesSpec(requests={"cpu": "1"}, limits={"cpu": "3", "memory": "1Gi"})
AMOUNTS = st.builds("{}{}".format, st.integers(1, 4096), st.sampled_from(["", "m", "k", "Ki", "M", "Mi", "Gi"]))


def test_each_haproxy_process_gets_half_of_the_resources_of_its_router_pod() -> None:
    assert process_resources(LIMITED) == {
        "requests": {"cpu": "500m", "memory": "32Mi"},
        "limits": {"cpu": "1500m", "memory": "512Mi"},
    }


def test_threads_cover_the_cpu_limit_of_a_process_and_connections_fit_its_memory() -> None:
    assert (threads(LIMITED), connections(LIMITED)) == (2, 8192)


def test_without_a_cpu_limit_the_request_decides_the_number_of_threads() -> None:
    assert [threads(ResourcesSpec(requests={"cpu": cpu})) for cpu in ("100m", "2", "4500m")] == [1, 1, 3]


def test_threads_and_connections_have_an_upper_limit() -> None:
    huge = ResourcesSpec(limits={"cpu": "1k", "memory": "1Ti"})
    assert (threads(huge), connections(huge)) == (MOST_THREADS, MOST_CONNECTIONS)


@given(cpu=AMOUNTS, memory=AMOUNTS)
def test_the_parts_of_two_processes_cover_the_limits_and_no_request_exceeds_them(cpu: str, memory: str) -> None:
    given_limits = {"cpu": cpu, "memory": memory}
    part = process_resources(ResourcesSpec(limits=given_limits))
    for name, amount in given_limits.items():
        assert 2 * value(part["limits"][name]) >= value(amount)
        assert value(part["requests"][name]) <= value(part["limits"][name])
        assert part["limits"][name] == canonical(part["limits"][name])


def test_a_resource_that_cannot_be_divided_is_refused_with_its_field() -> None:
    refusal = refusal_of_router_resources(ResourcesSpec(limits={"example.com/nic": "1"}))
    assert refusal is not None
    assert "spec.router.resources.limits[example.com/nic]" in str(refusal)


@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_a_request_above_its_limit_is_refused_with_its_field(name: str) -> None:
    refusal = refusal_of_router_resources(ResourcesSpec(requests={name: "2"}, limits={name: "1"}))
    assert refusal is not None
    assert f"spec.router.resources.requests[{name}]" in str(refusal)


def test_a_request_above_the_default_limit_is_refused() -> None:
    refusal = refusal_of_router_resources(ResourcesSpec(requests={"memory": "1Gi"}))
    assert refusal is not None
    assert "`1Gi` is more than the limit `512Mi`" in str(refusal)


def test_resources_of_the_router_change_its_pods_and_configuration_and_no_engine() -> None:
    before = planned(inference_deployment()).desired
    after = planned(inference_deployment(router={"resources": {"limits": {"cpu": "4"}}})).desired
    assert after[ENGINES] == before[ENGINES]
    assert "nbthread 2\n" in after[CONFIG]["data"]["haproxy.cfg"]
    containers = after[ROUTERS]["spec"]["template"]["spec"]["containers"]
    assert [one["resources"]["limits"] for one in containers] == [{"memory": "256Mi", "cpu": "2"}] * 2


def test_buffers_get_larger_with_the_memory_and_smaller_with_the_queue() -> None:
    small, large = ({"resources": {"limits": {"memory": memory}}} for memory in ("64Mi", "1Gi"))
    of_many = {"queue": {"maxSize": 2000}}
    sizes = [buffer_bytes(RouterSpec.model_validate(spec)) // 1024 for spec in (small, {}, large, of_many)]
    assert sizes == [32, 80, 160, 64]


def test_the_defaults_of_a_process() -> None:
    assert process_resources(ResourcesSpec()) == {
        "requests": {"cpu": "50m", "memory": "32Mi"},
        "limits": {"memory": "256Mi"},
    }
    assert (threads(ResourcesSpec()), connections(ResourcesSpec())) == (1, 4096)
    assert (buffered_body_bytes(RouterSpec()), buffered_requests(RouterSpec())) == (64 * 1024, 1092)
    assert hot_bytes(ResourcesSpec()) == 4 * 2**20
    assert hot_bytes(ResourcesSpec(limits={"cpu": "16"})) == 512 * 1024
    assert process_connections(RouterSpec()) == 3276 + 1024 + 3276 + 304
    assert process_connections(RouterSpec(), has_prefill=True) == process_connections(RouterSpec()) + 409
