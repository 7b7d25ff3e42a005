"""What is known of a model's files: the same document whether it is of the catalogue or was inspected."""

from dataclasses import dataclass

from inference_operator.manifest import Manifest
from inference_operator.models.checkpoint import Weights

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Entry:
    """One model: the fields of its `config.json` that are read, and the bytes of its weights."""

    name: str
    source: str
    """Repository, commit and path of the config."""
    config: Manifest
    weights: Weights | None
    """None: nothing but the config is known, and the matrices are counted."""
    commit: str = ""
    """The commit of the model's own repository; empty where there is none or it is not known."""


def entry_document(entry: Entry) -> Manifest:
    """As JSON-like data.

    Examples:
        >>> entry_document(Entry("org/model", "hf://org/model", {"num_hidden_layers": 1}, Weights(2**29, "one file")))
        {'model': 'org/model', 'source': 'hf://org/model', 'config': {'num_hidden_layers': 1}, \
'weights': {'gib': 0.5, 'source': 'one file', 'exact': True}}
    """
    size = entry.weights
    weights = None if size is None else {"gib": size.total_bytes / GIB, "source": size.origin, "exact": size.exact}
    named = {"model": entry.name, "source": entry.source, "config": entry.config, "weights": weights}
    return {**named, "commit": entry.commit} if entry.commit else named


def entry_of(fields: Manifest) -> Entry:
    """Read it back: a byte is not lost, since a power of two only moves a float's exponent.

    Raises:
        KeyError, TypeError: it is none.
    """
    size = fields["weights"]
    weights = Weights(round(size["gib"] * GIB), size["source"], exact=size["exact"]) if size else None
    return Entry(fields["model"], fields["source"], fields["config"], weights, fields.get("commit", ""))
