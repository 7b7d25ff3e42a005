"""Images that projects publish for their inference servers, by the name of the repository.

Images: ggml-org/llama.cpp docs/docker.md, sgl-project/sglang docs/get_started/install.md, NVIDIA/TensorRT-LLM
docs/source/installation/containers.md, huggingface/text-generation-inference README.md, InternLM/lmdeploy
docs/en/get_started/installation.md, ollama/ollama docs/docker.mdx.
"""

import re
from collections.abc import Mapping

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal

VLLM_IMAGES, LLAMA_CPP_IMAGES, SGLANG_IMAGES = "vLLM", "llama.cpp", "SGLang"
_REPOSITORIES: Mapping[str, re.Pattern[str]] = {
    VLLM_IMAGES: re.compile(r"(?:^|/)vllm/vllm-(?:openai|tpu)"),
    LLAMA_CPP_IMAGES: re.compile(r"(?:^|/)(?:ggml-org|ggerganov)/llama\.cpp$"),
    SGLANG_IMAGES: re.compile(r"(?:^|/)lmsysorg/sglang"),
    "TensorRT-LLM": re.compile(r"(?:^|/)nvidia/tensorrt-llm"),
    "Text Generation Inference": re.compile(r"(?:^|/)huggingface/text-generation-inference$"),
    "LMDeploy": re.compile(r"(?:^|/)openmmlab/lmdeploy$"),
    "Ollama": re.compile(r"(?:^|/)ollama/ollama$"),
}


def project_of(image: str) -> str:
    """The project that publishes an image; empty if its repository is none of these.

    Examples:
        >>> project_of("ghcr.io/ggml-org/llama.cpp:server-cuda"), project_of("lmsysorg/sglang:v0.5.23")
        ('llama.cpp', 'SGLang')
        >>> project_of("registry.example:5000/own/vllm@sha256:12")
        ''
    """
    repository = image.partition("@")[0]
    folder, slash, name = repository.rpartition("/")
    repository = f"{folder}{slash}{name.partition(':')[0]}"
    return next((project for project, pattern in _REPOSITORIES.items() if pattern.search(repository)), "")


def refusal_of_foreign_image(image: str, project: str) -> Refusal | None:
    """Why an engine that runs in images of one project cannot run in this one; None if it may."""
    image_project = project_of(image)
    if image_project in ("", project):
        return None
    problem = f"This is an image of {image_project}, and the engine needs one of {project}."
    return Refusal(Reason.INVALID_SPEC, "spec.engine.image", problem, f"Remove it, or use an image of {project}.")
