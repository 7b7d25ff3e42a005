"""`spec.engine.generation`: defaults and limits of what a request may ask of the engine."""

from pydantic import Field

from inference_operator.api.validation import SpecModel

MOST_CHOICES = 128
"""Default of `maxN`: as many as the OpenAI API allows (openai-openapi, CreateChatCompletionRequest, `n`)."""

_MODELS = "Default: the model's own, in its `generation_config.json`. Change: rolling restart."


class GenerationSpec(SpecModel):
    temperature: float | None = Field(
        None, ge=0, le=2, description=f"Temperature of requests that name none. {_MODELS}"
    )
    top_p: float | None = Field(None, ge=0.01, le=1, description=f"`top_p` of requests that name none. {_MODELS}")
    top_k: int | None = Field(
        None, ge=0, le=1_000_000, description=f"`top_k` of requests that name none; 0: all tokens. {_MODELS}"
    )
    min_p: float | None = Field(None, ge=0, le=1, description=f"`min_p` of requests that name none. {_MODELS}")
    repetition_penalty: float | None = Field(
        None, ge=0.01, le=2, description=f"`repetition_penalty` of requests that name none. {_MODELS}"
    )
    presence_penalty: float | None = Field(
        None, ge=-2, le=2, description=f"`presence_penalty` of requests that name none. {_MODELS}"
    )
    frequency_penalty: float | None = Field(
        None, ge=-2, le=2, description=f"`frequency_penalty` of requests that name none. {_MODELS}"
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        le=16_777_216,
        description="Most tokens of an answer, whatever a request asks for. Default: the model's own, else the context"
        " length. Change: rolling restart.",
    )
    max_n: int = Field(
        MOST_CHOICES,
        ge=1,
        le=16_384,
        description=f"Most answers that one request may ask for with `n`; more are refused with 400. Default:"
        f" {MOST_CHOICES}. Change: rolling restart.",
    )
