"""`spec.engine.kind`, `.profile` and `.speculative.method`, for modules that import no pydantic."""

from enum import StrEnum


class EngineKind(StrEnum):
    AUTO = "Auto"
    """The first engine that can run the model, in the order of the registry."""
    VLLM = "VLLM"
    TRANSFORMERS = "Transformers"
    LLAMA_CPP = "LlamaCpp"
    SGLANG = "SGLang"


class EngineProfile(StrEnum):
    BALANCED = "Balanced"
    THROUGHPUT = "Throughput"
    LATENCY = "Latency"
    SMALLEST = "Smallest"


class SpeculativeMethod(StrEnum):
    OFF = "Off"
    AUTO = "Auto"
    MTP = "MTP"
    EAGLE3 = "EAGLE3"
    DRAFT_MODEL = "DraftModel"
    NGRAM = "Ngram"


WITH_DRAFT = (SpeculativeMethod.EAGLE3, SpeculativeMethod.DRAFT_MODEL)
"""Methods that load a second model."""
