"""A model's config and weights, as the catalogue and an inspection store them."""

from dataclasses import dataclass, replace

from inference_operator.manifest import Manifest
from inference_operator.models.checkpoint import WeightFormat, Weights, format_of
from inference_operator.models.config import NotUnderstood
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.side_files import NO_SIDE_FILES, SideFiles, side_files_document, side_files_of
from inference_operator.units import GIB


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    source: str
    """Repository, commit and path of the config."""
    config: Manifest
    weights: Weights | None
    """None: only the config is known; sizing then counts the matrices."""
    commit: str = ""
    """The commit of the model's own repository; empty if it has none or the commit is unknown."""
    side: SideFiles = NO_SIDE_FILES
    download_bytes: int = 0
    """Of the files that a download to a claim takes: more than the weights where there are two sets of them, of which
    an engine loads one. 0 if that is not known."""


def entry_facts(entry: Entry) -> ModelFacts | NotUnderstood:
    facts = model_facts(entry.config, entry.weights, entry.side)
    if isinstance(facts, NotUnderstood):
        return facts
    return replace(facts, commit=entry.commit, download_bytes=entry.download_bytes)


def entry_document(entry: Entry) -> Manifest:
    size = entry.weights
    weights = None
    if size is not None:
        plain = {"plain": True} if size.plain else {}
        weights = {"gib": size.total_bytes / GIB, "source": size.origin, "exact": size.exact, **plain}
    named = {"model": entry.name, "source": entry.source, "config": entry.config, "weights": weights}
    download = entry.download_bytes / GIB
    further = {"commit": entry.commit, "side": side_files_document(entry.side), "downloadGib": download}
    return {**named, **{name: value for name, value in further.items() if value}}


def entry_of(fields: Manifest) -> Entry:
    """Read the stored form. No byte is lost: dividing a float by a power of two changes only its exponent.

    Raises:
        KeyError, TypeError: the fields are not those of an entry.
    """
    size = fields["weights"]
    return Entry(
        name=fields["model"],
        source=fields["source"],
        config=fields["config"],
        weights=_weights(size) if size else None,
        commit=fields.get("commit", ""),
        side=side_files_of(fields.get("side", {})),
        download_bytes=round(float(fields.get("downloadGib", 0)) * GIB),
    )


def _weights(size: Manifest) -> Weights:
    origin = size["source"]
    file_format = format_of(origin) if isinstance(origin, str) else WeightFormat.SAFETENSORS
    return Weights(round(size["gib"] * GIB), origin, size["exact"], file_format, plain=size.get("plain") is True)
