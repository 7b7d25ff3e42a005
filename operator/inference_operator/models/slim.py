"""Reduces a `config.json` to the fields that facts depend on, so that it fits into a Kubernetes object."""

from collections.abc import ItemsView, ValuesView
from typing import Any

from inference_operator.manifest import Manifest
from inference_operator.models.checkpoint import Weights
from inference_operator.models.compressed_tensors import LAYER_LISTS, shapes
from inference_operator.models.config import Config, UnreadableError, language_model
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.side_files import NO_SIDE_FILES, SideFiles


def slim(document: object, weights: Weights | None, side: SideFiles = NO_SIDE_FILES) -> Manifest:
    """The fields that the facts of a model depend on; the facts of the result are the same.

    There is no list of such fields. The facts are computed once, and the fields that this computation reads are kept.
    Lists of layers, and of their names, become counts. If the facts of the result differ, it is the whole document.
    """
    facts = model_facts(document, weights, side)
    flat, _ = language_model(document)
    read = _RecordingDict(flat.fields)
    model_facts(read, weights, side)
    kept = read.kept()
    for name in [name for name, value in kept.items() if isinstance(value, list)]:
        counted = _counted(kept, name)
        kept = counted if model_facts(counted, weights, side) == facts else kept
    named = _with_shapes(kept)
    kept = named if named != kept and model_facts(named, weights, side) == facts else kept
    whole: Manifest = dict(document) if isinstance(document, dict) else {}
    return kept if isinstance(facts, ModelFacts) and model_facts(kept, weights, side) == facts else whole


def _counted(fields: Manifest, name: str) -> Manifest:
    try:
        return {**fields, name: {"counts": Config(fields).tally(name)}}
    except UnreadableError:
        return fields


def _with_shapes(value: Any) -> Any:  # noqa: ANN401 - a part of JSON
    if not isinstance(value, dict):
        return value
    return {
        name: {"counts": shapes(item)} if name in LAYER_LISTS and isinstance(item, list) else _with_shapes(item)
        for name, item in value.items()
    }


class _RecordingDict(dict[str, Any]):
    def __init__(self, fields: Manifest) -> None:
        super().__init__(
            {str(name): _RecordingDict(value) if isinstance(value, dict) else value for name, value in fields.items()}
        )
        self._names_read: set[str] = set()

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - as `dict` has it
        self._names_read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._names_read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as `dict` has it
        self._names_read.add(name)
        return super().get(name, default)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]  # dict_values is final to mypy
        self._names_read.update(self)
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]  # as `values`
        self._names_read.update(self)
        return super().items()

    def kept(self) -> Manifest:
        """The fields that were read and exist, in their order. A null stays: it is no default."""
        known = {name: value for name, value in super().items() if name in self._names_read}
        return {name: value.kept() if isinstance(value, _RecordingDict) else value for name, value in known.items()}
