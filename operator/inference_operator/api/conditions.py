"""A condition of `status`, in Kubernetes' standard form (API conventions, typical status properties)."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_MESSAGE_LENGTH = 32768
"""Upper bound of a condition's message in Kubernetes' own type (`metav1.Condition`)."""


def _moment(text: str) -> str:
    """A time that names its zone, as text: what is read is written back unchanged."""
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("must name its zone")
    return text


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
    last_transition_time: Annotated[str, AfterValidator(_moment)] = Field(
        max_length=64, description="When `status` changed last.", json_schema_extra={"format": "date-time"}
    )

    @property
    def since(self) -> datetime:
        """When `status` changed last."""
        return datetime.fromisoformat(self.last_transition_time)
