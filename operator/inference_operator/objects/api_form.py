"""Converts parts of the spec that have a Kubernetes type into the form in which the API server stores them."""

from collections.abc import Mapping

from pydantic import BaseModel

from inference_operator.manifest import Manifest


def api_form(part: BaseModel) -> Manifest:
    """The fields by their API names, without empty ones, which the API server omits.

    Examples:
        >>> from inference_operator.api.scheduling import Toleration
        >>> api_form(Toleration(key="dedicated", operator="Exists", value=""))
        {'key': 'dedicated', 'operator': 'Exists'}
    """
    named = {info.alias or name: getattr(part, name) for name, info in type(part).model_fields.items()}
    values = {name: _value(value) for name, value in named.items()}
    return {name: value for name, value in values.items() if value is not False and value not in (None, "", {}, [])}


def _value(value: object) -> object:
    if isinstance(value, BaseModel):
        return api_form(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return str(value) if isinstance(value, str) else value
