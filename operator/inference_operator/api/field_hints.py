"""Where a field belongs that a user wrote elsewhere, or by the name that another project has for it.

1. A name of another project: the field that does the same here.
2. The name of a field in another section: that field. Of several the one that is least deep.
3. A misspelled field of the same section.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import get_args

from inference_operator.api.spec import Spec
from inference_operator.api.validation import SpecModel
from inference_operator.text_tables import blocks

OF_OTHER_PROJECTS: Mapping[str, str] = {
    name: instead for names, instead in blocks(__package__, "field-hints") for name in names.split()
}

ABBREVIATIONS: Mapping[str, str] = {"RWO": "ReadWriteOnce", "RWX": "ReadWriteMany"}
"""Values that `kubectl get pvc` prints in another form than the API takes."""


def field_hint(section: Sequence[str], name: str) -> str:
    """What to use instead of an unknown field of a section, a path below `spec`; empty for nothing."""
    if name in OF_OTHER_PROJECTS:
        return f"Use {OF_OTHER_PROJECTS[name]}."
    if elsewhere := _fields().get(name):
        return f"Use `spec.{elsewhere}`."
    model = _section(section)
    names = [field.alias for field in model.model_fields.values() if field.alias] if model else []
    near = get_close_matches(name, names, n=1)
    return f"Did you mean `{near[0]}`?" if near else ""


def value_hint(value: str, allowed: Sequence[str]) -> str:
    by_lower = {name.lower(): name for name in allowed}
    meant = ABBREVIATIONS.get(value.upper(), value).lower()
    near = [meant] if meant in by_lower else get_close_matches(meant, by_lower, n=1)
    return f"Did you mean `{by_lower[near[0]]}`?" if near else ""


def _section(path: Sequence[str]) -> type[SpecModel] | None:
    model: type[SpecModel] | None = Spec
    for step in path:
        field = next((field for field in model.model_fields.values() if field.alias == step), None) if model else None
        model = model_of(field.annotation) if field else None
    return model


def model_of(annotation: object) -> type[SpecModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return annotation
    return next((model for item in get_args(annotation) if (model := model_of(item)) is not None), None)


@lru_cache(maxsize=1)
def _fields() -> Mapping[str, str]:
    """The path of the least deep field of each name, without those in items of lists."""
    paths: dict[str, str] = {}
    for path in sorted(_paths(Spec, ()), key=len):
        paths.setdefault(path[-1], ".".join(path))
    return paths


def _paths(model: type[SpecModel], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in model.model_fields.values():
        here = (*path, field.alias or "")
        yield here
        inner = model_of(field.annotation)
        if inner and not str(field.annotation).startswith("tuple["):
            yield from _paths(inner, here)
