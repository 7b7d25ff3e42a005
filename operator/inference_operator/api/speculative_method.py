"""`spec.engine.speculative.method`: the kinds of speculative decoding. It imports no pydantic."""

from enum import StrEnum


class SpeculativeMethod(StrEnum):
    OFF = "Off"
    AUTO = "Auto"
    MTP = "MTP"
    EAGLE3 = "EAGLE3"
    DRAFT_MODEL = "DraftModel"
    NGRAM = "Ngram"


WITH_DRAFT = (SpeculativeMethod.EAGLE3, SpeculativeMethod.DRAFT_MODEL)
"""Methods that load a second model."""
