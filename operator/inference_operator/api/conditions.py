"""A condition of `status`, in Kubernetes' standard form (API conventions, typical status properties)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_MESSAGE_LENGTH = 32768
"""Upper bound of a condition's message in Kubernetes' own type (`metav1.Condition`)."""


class Condition(BaseModel):
    """One aspect of the state, why it is so, and since when its status has been what it is."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, frozen=True, extra="ignore"
    )

    # Words, not enumerations: a status that a newer operator wrote must stay readable.
    type: str = Field(max_length=64, description="Which aspect.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(max_length=64, description="Why, in one word of the documented list.")
    message: str = Field(max_length=MAX_MESSAGE_LENGTH, description="Why, in a sentence.")
    observed_generation: int = Field(description="The generation of the spec that this is about.")
    last_transition_time: str = Field(description="When `status` changed last.")
