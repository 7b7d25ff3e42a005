"""GPUs and drivers that an engine image cannot use: refused before any pod exists, with what to do."""

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.settings import Settings
from inference_operator.views.node import NodeView, node_view
from tests.testing.builders import inference_deployment, inputs
from tests.testing.nodes import node

V100 = {"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB"}
L4 = {"nvidia.com/gpu.product": "NVIDIA-L4"}
NEW, OLD = "nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major"
CU129 = {"image": "docker.io/vllm/vllm-openai:v0.32.0-cu129"}
COMPATIBLE = {"env": [{"name": "VLLM_ENABLE_CUDA_COMPATIBILITY", "value": "1"}]}


def gpus(name: str = "a", **labels: str) -> NodeView:
    return node_view(node(name, gpus=4, labels=labels))


def refused(raw: Manifest, *nodes: NodeView, settings: Settings | None = None) -> str:
    result = outcome(inputs(raw, nodes=nodes, settings=settings or Settings()))
    assert isinstance(result, Refused), result
    assert result.refusal.reason == "NoSuitableGpu"
    return result.refusal.message


def gpu_of(raw: Manifest, *nodes: NodeView) -> str:
    result = outcome(inputs(raw, nodes=nodes))
    assert isinstance(result, Planned), result
    return result.plan.plan.gpu


def test_the_default_image_is_refused_on_a_v100_and_an_image_that_runs_there_is_named() -> None:
    message = refused(inference_deployment(), gpus(**V100))
    assert "The image has no code for V100-32GB: it needs compute capability 7.5." in message
    assert "`docker.io/vllm/vllm-openai:v0.19.1`" in message
    older = inference_deployment(engine={"image": "docker.io/vllm/vllm-openai:v0.19.1"})
    assert gpu_of(older, gpus(**V100)) == "V100-32GB"
    assert gpu_of(inference_deployment(engine={"image": "example.com/mine:v0.32.0"}), gpus(**V100)) == "V100-32GB"


def test_a_v100_is_refused_although_the_spec_sets_the_tensor_parallel_size() -> None:
    assert "no code for V100-32GB" in refused(inference_deployment(parallelism={"tensor": 2}), gpus(**V100))


def test_another_kind_is_chosen_beside_a_v100() -> None:
    assert gpu_of(inference_deployment(), gpus("a", **V100), gpus("b", **L4)) == "L4"


@pytest.mark.parametrize("label", [NEW, OLD])
def test_a_node_with_an_old_driver_is_refused_with_its_name_and_what_to_do(label: str) -> None:
    message = refused(inference_deployment(), gpus("gpu-7", **L4, **{label: "550"}))
    assert "Node `gpu-7` has driver 550, and the image's CUDA 13.0 needs 580 or newer." in message
    assert "use `spec.engine.image: docker.io/vllm/vllm-openai:v0.32.0-cu129`" in message
    assert "`VLLM_ENABLE_CUDA_COMPATIBILITY=1`" in message


def test_a_node_with_an_old_driver_outside_the_node_selector_refuses_nothing() -> None:
    own = inference_deployment(scheduling={"nodeSelector": {"pool": "new"}}, parallelism={"tensor": 2})
    result = outcome(inputs(own, nodes=[gpus(**L4, **{NEW: "550"})]))
    assert isinstance(result, Planned), result
    assert result.plan.plan.parallel.tensor == 2


@pytest.mark.parametrize("engine", [CU129, COMPATIBLE])
def test_the_older_image_and_the_compatibility_libraries_run_on_an_older_driver(engine: Manifest) -> None:
    raw = inference_deployment(engine=engine)
    assert gpu_of(raw, gpus(**L4, **{NEW: "550"})) == "L4"
    assert "needs 535 or newer" in refused(raw, gpus(**L4, **{NEW: "470"}))


def test_nodes_with_a_recent_driver_or_without_its_label_are_used() -> None:
    assert gpu_of(inference_deployment(), gpus(**L4, **{NEW: "580"})) == "L4"
    assert gpu_of(inference_deployment(), gpus(**L4)) == "L4"
    h100 = gpus("b")
    assert gpu_of(inference_deployment(), gpus("a", **L4, **{NEW: "550"}), h100) == "H100-80GB"


@pytest.mark.parametrize("text", ["", "580.95", "-1", "v550", "9" * 50])
def test_an_invalid_driver_label_counts_as_unknown(text: str) -> None:
    assert GpuNeeds(driver=580).too_old({NEW: text}) == 0


@pytest.mark.parametrize(
    ("image", "cuda"),
    [
        ("docker.io/vllm/vllm-openai:v0.32.0", "13.0"),
        ("vllm/vllm-openai:v0.32.0@sha256:0a", "13.0"),
        ("mirror.example.com/vllm/vllm-openai:v0.20.0-cu129", "12.9"),
        ("docker.io/vllm/vllm-openai:v0.19.1", ""),
        ("docker.io/vllm/vllm-openai:latest", ""),
        ("docker.io/vllm/vllm-openai-cpu:v0.32.0", ""),
        ("example.com/engine:1", ""),
    ],
)
def test_only_releases_of_vllms_own_images_have_known_needs(image: str, cuda: str) -> None:
    assert Vllm().gpu_needs(EngineSpec(), image).cuda == cuda
