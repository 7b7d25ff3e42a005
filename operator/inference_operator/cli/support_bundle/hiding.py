"""Objects and texts without what could be a secret. Pure.

Rules are wide, since a hidden word does no harm: values of variables, annotations of others, and values of fields and
options with a name such as `token` go; every other text loses what has the form of a secret.
"""

import json
import re
from collections.abc import Iterator
from typing import get_origin

from pydantic import BaseModel

from inference_operator.manifest import GROUP, Manifest
from inference_operator.settings import PREFIX, Settings
from inference_operator.views.redact import HIDDEN, redacted

_SECRET_NAME = re.compile(
    r"(?i)(token|secret|passw|pwd|credential|signature|\bsig\b|auth|cookie"
    r"|(api|access|private|account)[-_]?key|[-_.]key$)"
)
"""Names as in `views.redact`. A field `key` alone stays: it names an entry of a Secret."""
_REFERENCE = re.compile(r"(Ref|Refs|Name|Names)$")
"""Fields that name an object, such as `tokenSecretRef` and `secretName`; names are no secrets."""
_OPTION = re.compile(r"--?[\w.-]+")
_VARIABLES = frozenset({"env", "volumeAttributes", "httpHeaders"})
"""Fields whose values are hidden whatever their names: variables, parameters of CSI drivers, headers of probes."""
_DROPPED = frozenset({"managedFields", "binaryData"})


def _is_object(annotation: object) -> bool:
    """Whether a setting of this type may hold variables of pods, or addresses with a password."""
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, dict | bytes | BaseModel)


_OWN_SETTINGS = frozenset(
    f"{PREFIX}{name.upper()}"
    for name, field in Settings.model_fields.items()
    if name != "traces_endpoint" and not _is_object(field.annotation)
)
"""Settings of the operator that hold a number, an image or names: their values are shown."""
MOST_DEPTH = 60
"""Levels of an object, above all that the API server stores of Kubernetes' own kinds."""


def shown_object(manifest: Manifest) -> Manifest:
    found = _shown(manifest, 0)
    return found if isinstance(found, dict) else {}


def _shown(value: object, depth: int) -> object:
    if depth > MOST_DEPTH:
        return HIDDEN
    if isinstance(value, dict):
        return {
            redacted(str(name)): _field(str(name), part, depth + 1)
            for name, part in value.items()
            if name not in _DROPPED
        }
    if isinstance(value, list):
        return list(_items(value, depth + 1))
    return _text(value) if isinstance(value, str) else value


def _field(name: str, value: object, depth: int) -> object:
    if name in _VARIABLES and isinstance(value, list):
        return [_variable(one, depth + 1) for one in value]
    if name in _VARIABLES and isinstance(value, dict):
        return dict.fromkeys(map(redacted, map(str, value)), HIDDEN)
    if name == "annotations" and isinstance(value, dict):
        return {redacted(str(key)): _annotation(str(key), part, depth + 1) for key, part in value.items()}
    if _is_secret_name(name):
        return [_secret(one, depth) for one in value] if isinstance(value, list) else _secret(value, depth)
    return _shown(value, depth)


def _secret(value: object, depth: int) -> object:
    """A value whose name says that it is a secret; parts of an object have names of their own."""
    return HIDDEN if isinstance(value, str | int | float) and not isinstance(value, bool) else _shown(value, depth)


def _is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _REFERENCE.search(name)


def _variable(one: object, depth: int) -> object:
    """A variable with the reference that it has, or with its value hidden."""
    if not isinstance(one, dict):
        return HIDDEN
    kept = _shown({key: part for key, part in one.items() if key != "value"}, depth)
    if "value" not in one or not isinstance(kept, dict):
        return kept
    return {**kept, "value": _text(str(one["value"])) if one.get("name") in _OWN_SETTINGS else HIDDEN}


def _annotation(key: str, value: object, depth: int) -> object:
    """The value of an annotation of ours; those of others may hold whole objects, so they are hidden."""
    if not isinstance(value, str) or not re.fullmatch(rf"([\w-]+\.)*{re.escape(GROUP)}", key.partition("/")[0]):
        return HIDDEN
    return _text(value, depth)


def _text(text: str, depth: int = 0) -> str:
    """A text; where it is a JSON object or list, with the rules for fields in it."""
    if text[:1] in {"{", "["}:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return redacted(text)
        return json.dumps(_shown(found, depth + 1))
    return redacted(text)


def _items(values: list[object], depth: int) -> Iterator[object]:
    """The items of a list; the one after an option such as `--api-key` is hidden."""
    hides = False
    for one in values:
        text = one if isinstance(one, str) else ""
        if hides and not text.startswith("--"):
            yield HIDDEN
        else:
            yield _option(text, depth) if text else _shown(one, depth)
        hides = bool(_OPTION.fullmatch(text)) and _is_secret_name(text)


def _option(text: str, depth: int) -> str:
    """An argument; the value after `=` is hidden if the option's name says that it is a secret."""
    name, equals, _ = text.partition("=")
    if equals and _is_secret_name(name):
        return f"{redacted(name)}={HIDDEN}"
    return _text(text, depth)
