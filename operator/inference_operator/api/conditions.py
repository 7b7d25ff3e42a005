"""A condition of `status`, with the fields of `metav1.Condition` (Kubernetes API conventions)."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_MESSAGE_LENGTH = 32768
"""Maximum length of a message in `metav1.Condition`."""


def time_text(moment: datetime) -> str:
    """As `metav1.Time` has it: in UTC, without fractions of a second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: str) -> str:
    """Check that a time has a zone. It stays text, so that it is written back unchanged."""
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("must have a time zone")
    return text


class Condition(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, frozen=True, extra="ignore"
    )

    # Strings, not enums: a status that a newer operator wrote must stay readable.
    type: str = Field(max_length=64, description="Type of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: str = Field(max_length=64, description="Documented CamelCase reason for the status.")
    message: str = Field(max_length=MAX_MESSAGE_LENGTH, description="Details for people.")
    observed_generation: int = Field(description="Generation of the spec that the condition was computed from.")
    last_transition_time: Annotated[str, AfterValidator(_moment)] = Field(
        max_length=64,
        description="Time of the last change of the condition's status.",
        json_schema_extra={"format": "date-time"},
    )

    @property
    def since(self) -> datetime:
        return datetime.fromisoformat(self.last_transition_time)
