import pytest

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.reasons import Reason
from inference_operator.objects.compute_resources import refusal_of_resources, requirements
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.plan import cpu_plan, unchecked_plan
from inference_operator.sizing.shape import SizingRequest

ON_GPU = unchecked_plan(SizingRequest(2))
ON_CPU = cpu_plan(SizingRequest(), CpuNeeds(None, 2**32, memory_gib=4), None, downloads=False)


def test_defaults_on_gpus() -> None:
    assert requirements(ResourcesSpec(), ON_GPU) == {
        "requests": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }


def test_defaults_on_a_cpu_have_no_limits_at_all() -> None:
    assert requirements(ResourcesSpec(), ON_CPU) == {
        "requests": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "2Gi"}
    }


def test_what_is_asked_replaces_key_by_key() -> None:
    asked = ResourcesSpec(requests={"memory": "4096Mi", "example.com/nic": "1"}, limits={"example.com/nic": "1"})
    assert requirements(asked, ON_CPU) == {
        "requests": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "2Gi", "example.com/nic": "1"},
        "limits": {"example.com/nic": "1"},
    }


def test_a_limit_alone_is_the_request_too() -> None:
    result = requirements(ResourcesSpec(limits={"memory": "2Gi"}), ON_CPU)
    assert result["requests"]["memory"] == result["limits"]["memory"] == "2Gi"


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_gpus_are_counted_by_the_tensor_parallel_size(part: str) -> None:
    refusal = refusal_of_resources(ResourcesSpec.model_validate({part: {"nvidia.com/gpu": 1}}))
    assert refusal is not None
    assert refusal.reason is Reason.MANAGED_ARGUMENT
    assert refusal.message == (
        f"spec.engine.resources.{part}[nvidia.com/gpu]: the number of GPUs is the tensor parallel size times"
        " the pipeline's. Use `spec.parallelism`, and `spec.hardware.gpu.resourceName` for another resource."
    )


def test_a_request_above_its_limit_is_refused() -> None:
    refusal = refusal_of_resources(ResourcesSpec(requests={"memory": "2Gi"}, limits={"memory": "2G"}))
    assert refusal is not None
    assert refusal.reason is Reason.INVALID_SPEC
    assert refusal.message.startswith("spec.engine.resources.requests[memory]: `2Gi` is more than the limit `2G`.")


@pytest.mark.parametrize(("request_", "limit"), [("1", "1000m"), ("1Gi", "1024Mi"), ("500m", "1")])
def test_a_request_up_to_its_limit_is_not(request_: str, limit: str) -> None:
    assert refusal_of_resources(ResourcesSpec(requests={"cpu": request_}, limits={"cpu": limit})) is None
