import pytest

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.reasons import Reason
from inference_operator.objects.compute_resources import refusal_of_resources, requirements
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.plan import cpu_plan, unchecked_plan
from inference_operator.sizing.shape import SizingInputs

ON_GPU = unchecked_plan(SizingInputs(2))
ON_CPU = cpu_plan(SizingInputs(), CpuNeeds(None, 2**32, memory_gib=4), None, downloads=False)


def test_a_gpu_engine_has_the_planned_resources_by_default() -> None:
    assert requirements(ResourcesSpec(), ON_GPU, {}) == {
        "requests": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }


def test_a_cpu_engine_has_no_resource_limits_by_default() -> None:
    assert requirements(ResourcesSpec(), ON_CPU, {}) == {
        "requests": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "2Gi"}
    }


def test_resources_of_the_spec_replace_defaults_of_the_same_resource_name() -> None:
    asked = ResourcesSpec(requests={"memory": "4096Mi", "example.com/nic": "1"}, limits={"example.com/nic": "1"})
    assert requirements(asked, ON_CPU, {}) == {
        "requests": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "2Gi", "example.com/nic": "1"},
        "limits": {"example.com/nic": "1"},
    }


def test_a_resource_limit_without_a_request_is_also_the_request() -> None:
    result = requirements(ResourcesSpec(limits={"memory": "2Gi"}), ON_CPU, {})
    assert result["requests"]["memory"] == result["limits"]["memory"] == "2Gi"


def test_a_limit_ratio_gives_sized_requests_their_limits_and_spares_those_of_the_resource() -> None:
    limited = requirements(ResourcesSpec(requests={"cpu": "3"}), ON_GPU, {"cpu": 2.0, "memory": 1.5})
    assert limited["requests"] == {"cpu": "3", "memory": "16Gi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "2"}
    assert limited["limits"] == {"cpu": "6", "memory": "24Gi", "nvidia.com/gpu": "2"}
    own = requirements(ResourcesSpec(limits={"memory": "20Gi"}), ON_GPU, {"cpu": 2.0, "memory": 1.5})
    assert own["limits"]["memory"] == own["requests"]["memory"] == "20Gi"


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_gpus_in_resources_are_refused_because_parallelism_decides_their_number(part: str) -> None:
    refusal = refusal_of_resources(ResourcesSpec.model_validate({part: {"nvidia.com/gpu": 1}}))
    assert refusal is not None
    assert refusal.reason is Reason.MANAGED_ARGUMENT
    assert refusal.message == (
        f"spec.engine.resources.{part}[nvidia.com/gpu]: the number of GPUs is the tensor parallel size times"
        " the pipeline parallel size. Use `spec.parallelism`, and `spec.hardware.gpu.resourceName` for another"
        " resource."
    )


def test_a_resource_request_above_its_limit_is_refused() -> None:
    refusal = refusal_of_resources(ResourcesSpec(requests={"memory": "2Gi"}, limits={"memory": "2G"}))
    assert refusal is not None
    assert refusal.reason is Reason.INVALID_SPEC
    assert refusal.message.startswith("spec.engine.resources.requests[memory]: `2Gi` is more than the limit `2G`.")


@pytest.mark.parametrize(("request_", "limit"), [("1", "1000m"), ("1Gi", "1024Mi"), ("500m", "1")])
def test_a_resource_request_equal_to_or_below_its_limit_is_accepted(request_: str, limit: str) -> None:
    assert refusal_of_resources(ResourcesSpec(requests={"cpu": request_}, limits={"cpu": limit})) is None
