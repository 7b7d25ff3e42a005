"""`spec.engine.kind`: the inference engine."""

from enum import StrEnum


class EngineKind(StrEnum):
    """The inference engine that serves a model."""

    AUTO = "Auto"
    """The first engine that can run the model, in the order of the registry."""
    VLLM = "VLLM"
    """vLLM, `vllm serve`."""
    TRANSFORMERS = "Transformers"
    """Hugging Face Transformers, `transformers serve`."""
    LLAMA_CPP = "LlamaCpp"
    """llama.cpp, `llama-server`, for models in GGUF."""
    SGLANG = "SGLang"
    """SGLang, `sglang.launch_server`, on GPUs; only where it is named."""
