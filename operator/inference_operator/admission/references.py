"""Fields that name a Secret, a ConfigMap or a claim, found from the models of the spec by the annotation `NameOf`.

A reference is one such name in a resource. Its text in CEL and in Python is `NAME FIELD ITEM KEY`: the name of the
object, the path of the field, the name of the list's item, and the key beside the name. ITEM and KEY are empty where
there is none. Where an item has files of its own, such as an adapter, ITEM has their source too. No part contains a
space.

Two versions of a resource are compared by these texts. So a name that moves to another field, or that gets another
key, is a new reference.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

from annotated_types import MaxLen
from pydantic import BaseModel

from inference_operator.api.spec import Spec
from inference_operator.api.validation import NameOf
from inference_operator.manifest import Kind, Manifest

_ITEM = "name"
"""Field that tells the items of a list apart: environment variables, volumes."""
_KEY = "key"
"""Field beside a name that selects a part of the object."""
_SOURCE, _REVISION = "source", "revision"
"""Fields of an item that has files of its own."""
FILES = f"one.{_SOURCE} + '@' + (has(one.{_REVISION}) ? one.{_REVISION} : '')"
"""The files of such an item, in CEL."""


@dataclass(frozen=True, slots=True)
class _Step:
    field: str
    most: int = 0
    """Most items, if the field is a list; 0 if it is none."""
    named: bool = False
    sourced: bool = False


@dataclass(frozen=True, slots=True)
class NameField:
    name_of: NameOf
    outer: tuple[_Step, ...]
    """The path from `spec` to the last list, or to the object that has the field."""
    inner: tuple[str, ...]
    """The path from there, or from an item of the list, to the field."""
    keyed: bool
    """Whether the field `key` stands beside it."""

    @property
    def path(self) -> str:
        """The path below `spec`, with `[]` after a list, as `engine.env[].valueFrom.secretKeyRef.name`."""
        return ".".join([*(f"{step.field}[]" if step.most else step.field for step in self.outer), *self.inner])

    def texts(self, spec: Manifest) -> Iterator[str]:
        """The references of a resource in this field, in the order of the CEL expression."""
        for place in self._places():
            value = value_at(spec, place)
            for item in (value or ()) if self._is_list else (value,):
                *parents, last = self.inner
                parent = value_at(item or {}, parents)
                name = _name((parent or {}).get(last), self.name_of)
                if name is not None:
                    own = _item_text(self.outer[-1], item)
                    yield f"{name} {self._field(place)} {own} {parent.get(_KEY, '') if self.keyed else ''}"

    def cel(self, root: str) -> str:
        """The CEL expression for the list of these texts; `root` is `object` or `oldObject`."""
        return " + ".join(self._cel(root, place) for place in self._places())

    @property
    def _is_list(self) -> bool:
        return self.outer[-1].most > 0

    def _places(self) -> Iterator[tuple[str, ...]]:
        """Paths to the last list. CEL before Kubernetes 1.32 cannot flatten lists, so other lists have an index."""
        paths: list[tuple[str, ...]] = [()]
        for step in self.outer[:-1]:
            names = [f"{step.field}[{n}]" for n in range(step.most)] if step.most else [step.field]
            paths = [(*path, name) for path in paths for name in names]
        for path in paths:
            yield (*path, self.outer[-1].field)

    def _field(self, place: Sequence[str]) -> str:
        return ".".join(place if self._is_list else (*place, *self.inner))

    def _cel(self, root: str, place: Sequence[str]) -> str:
        value = value_of(root, ".".join(place))
        items = f"{value}.orValue([])" if self._is_list else f"{value}.optMap(one, [one]).orValue([])"
        paths = [".".join(("one", *self.inner[: number + 1])) for number in range(len(self.inner))]
        parent, name = ".".join(("one", *self.inner[:-1])), paths[-1]
        present = " && ".join(f"has({path})" for path in paths)
        if scheme := self.name_of.scheme:
            present = f"{present} && {name}.startsWith('{scheme}')"
            name = f"{name}.substring({len(scheme)}).split('/')[0]"
        own = _item_cel(self.outer[-1])
        key = f"(has({parent}.{_KEY}) ? {parent}.{_KEY} : '')" if self.keyed else "''"
        return f"{items}.filter(one, {present}).map(one, {name} + ' {self._field(place)} ' + {own}' ' + {key})"


def sources_cel(root: str) -> str:
    return " + ".join(f"{value_of(root, path)}.orValue([])" for path in sourced_lists())


@lru_cache(maxsize=1)
def sourced_lists() -> Sequence[str]:
    """The paths of the lists whose items have a source of files, found from the fields in them that name an object."""
    paths = (".".join(step.field for step in field.outer) for field in name_fields() if field.outer[-1].sourced)
    return tuple(dict.fromkeys(paths))


def _item_text(step: _Step, item: Manifest) -> str:
    """ITEM of a reference."""
    name = item[_ITEM] if step.named else ""
    return f"{name}={item[_SOURCE]}@{item.get(_REVISION, '')}" if step.sourced else name


def _item_cel(step: _Step) -> str:
    name = f"one.{_ITEM} + " if step.named else ""
    return f"{name}'=' + {FILES} + " if step.sourced else name


@lru_cache(maxsize=1)
def name_fields() -> Sequence[NameField]:
    return tuple(_of_model(Spec, ()))


def kinds() -> Sequence[Kind]:
    return tuple(dict.fromkeys(field.name_of.kind for field in name_fields()))


def references(spec: Manifest, kind: Kind) -> Sequence[str]:
    """The references of a resource to objects of a kind.

    Examples:
        >>> from inference_operator.manifest import CLAIM, SECRET
        >>> references({"model": {"tokenSecretRef": {"name": "hub", "key": "token"}}}, SECRET)
        ('hub model.tokenSecretRef.name  token',)
        >>> references({"model": {"source": "pvc://models/qwen"}}, CLAIM)
        ('models model.source  ',)
    """
    return tuple(text for field in name_fields() if field.name_of.kind == kind for text in field.texts(spec))


def references_cel(root: str, kind: Kind) -> str:
    return " + ".join(field.cel(root) for field in name_fields() if field.name_of.kind == kind)


def value_of(root: str, path: str) -> str:
    """The CEL expression for a field that may be absent, as an optional value.

    Examples:
        >>> value_of("object", "podTemplate.sidecars[1].env")
        'object.?spec.?podTemplate.?sidecars[?1].?env'
    """
    return f"{root}.?spec.?" + path.replace(".", ".?").replace("[", "[?")


def escaped(pattern: str) -> str:
    """A regular expression inside a CEL string in single quotes."""
    return pattern.replace("\\", "\\\\")


def _of_model(model: type[BaseModel], steps: tuple[_Step, ...]) -> Iterator[NameField]:
    keyed = _KEY in model.model_fields
    for name, info in model.model_fields.items():
        yield from _of_type(info.annotation, info.metadata, (*steps, _Step(info.alias or name)), keyed=keyed)


def _of_type(
    annotation: Any,  # noqa: ANN401 - a type as typing has it
    metadata: Sequence[object],
    steps: tuple[_Step, ...],
    *,
    keyed: bool,
) -> Iterator[NameField]:
    parts = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _of_model(annotation, steps)
    elif annotation is str:
        yield from (_name_field(name_of, steps, keyed=keyed) for name_of in metadata if isinstance(name_of, NameOf))
    elif get_origin(annotation) is Annotated:
        yield from _of_type(parts[0], [*metadata, *parts[1:]], steps, keyed=keyed)
    elif get_origin(annotation) in (Union, types.UnionType):
        for part in parts:
            yield from _of_type(part, metadata, steps, keyed=keyed)
    elif get_origin(annotation) is tuple and isinstance(parts[0], type) and issubclass(parts[0], BaseModel):
        most = next(limit.max_length for limit in metadata if isinstance(limit, MaxLen))
        fields = parts[0].model_fields
        items = replace(steps[-1], most=most, named=_ITEM in fields, sourced=_SOURCE in fields)
        yield from _of_model(parts[0], (*steps[:-1], items))


def _name_field(name_of: NameOf, steps: tuple[_Step, ...], *, keyed: bool) -> NameField:
    lists = [number for number, step in enumerate(steps) if step.most]
    end = lists[-1] + 1 if lists else len(steps) - 1
    return NameField(name_of, steps[:end], tuple(step.field for step in steps[end:]), keyed)


def _name(value: object, name_of: NameOf) -> str | None:
    if not isinstance(value, str) or not value.startswith(name_of.scheme):
        return None
    return value.removeprefix(name_of.scheme).split("/")[0] if name_of.scheme else value


def value_at(value: Any, place: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    for step in place:
        name, _, index = step.partition("[")
        value = value.get(name) if isinstance(value, Mapping) else None
        if index:
            value = next(iter((value or [])[int(index[:-1]) :]), None)
    return value
