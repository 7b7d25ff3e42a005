"""The environment of a container."""

from collections.abc import Sequence

from inference_operator.api.container import EnvironmentVariable
from inference_operator.manifest import Manifest


def environment(variables: Sequence[EnvironmentVariable]) -> list[Manifest]:
    """As the API server writes them back: it leaves an empty value out."""
    return [v.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_empty(v)) for v in variables]


def _empty(variable: EnvironmentVariable) -> set[str]:
    return {"value"} if variable.value == "" else set()
