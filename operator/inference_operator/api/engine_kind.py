"""`spec.engine.kind`, `.profile` and `.speculative.method`, for modules that import no pydantic."""

from enum import StrEnum


class EngineKind(StrEnum):
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


class EngineProfile(StrEnum):
    BALANCED = "Balanced"
    """The most requests per second for the cost that keep the latency objective."""
    THROUGHPUT = "Throughput"
    """The most requests per second for the cost, without an objective."""
    LATENCY = "Latency"
    """The least time of a token."""
    SMALLEST = "Smallest"
    """The fewest GPUs."""


class SpeculativeMethod(StrEnum):
    OFF = "Off"
    AUTO = "Auto"
    MTP = "MTP"
    EAGLE3 = "EAGLE3"
    DRAFT_MODEL = "DraftModel"
    NGRAM = "Ngram"


WITH_DRAFT = (SpeculativeMethod.EAGLE3, SpeculativeMethod.DRAFT_MODEL)
"""Methods that load a second model."""
