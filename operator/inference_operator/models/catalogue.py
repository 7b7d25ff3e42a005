"""The catalogue: public models whose `config.json` and size are stored with the operator.

The data is written by `python -m bench.catalogue` from configs in public repositories; each entry names repository,
commit and path. An entry has the same form as an inspection result; the same code reads both.
"""

import json
import re
from difflib import get_close_matches
from functools import cache

from inference_operator.models.entry import Entry, entry_of
from inference_operator.text_tables import text_of

FILE = "catalogue.json"


def entry(name: str) -> Entry | None:
    return _entries().get(name.lower())


def names() -> list[str]:
    return [entry.name for entry in _entries().values()]


def similar_model(name: str) -> str | None:
    """The most similar name of the same family; None if the catalogue has no model of it.

    Examples:
        >>> similar_model("Qwen/Qwen3-8b"), similar_model("meta-llama/Llama-3.1-8B-Instuct")
        ('Qwen/Qwen3-8B', 'meta-llama/Llama-3.1-8B-Instruct')
        >>> similar_model("nobody/abacus-8B") is None
        True
    """
    family = _family(name)
    relatives = [other for other in names() if _family(other) == family]
    similar = get_close_matches(name, relatives, n=1, cutoff=LEAST_SIMILAR)
    return similar[0] if similar else None


def siblings(repository: str) -> list[str]:
    """The quantized checkpoints of a model in the catalogue, by their names; those of the same organisation first.

    Examples:
        >>> siblings("Qwen/Qwen3-32B"), siblings("zai-org/GLM-5"), siblings("Qwen/Qwen3-32B-FP8")
        (['Qwen/Qwen3-32B-FP8', 'Qwen/Qwen3-32B-AWQ'], ['zai-org/GLM-5-FP8', 'nvidia/GLM-5-NVFP4'], [])
    """
    organisation, _, name = repository.lower().rpartition("/")
    found = [other for other in names() if _plain(other) == _plain(name) and PRECISION.search(other)]
    order = {suffix: number for number, suffix in enumerate(PRECISIONS)}

    def preferred(other: str) -> tuple[bool, int]:
        suffix = PRECISION.search(other)
        return not other.lower().startswith(f"{organisation}/"), order[suffix[1].lower()] if suffix else 0

    return [] if PRECISION.search(name) else sorted(found, key=preferred)


PRECISIONS = ("fp8", "nvfp4", "awq")
"""The precisions of siblings; what keeps most of the answers comes first."""
PRECISION = re.compile(rf"(?i)-({'|'.join(PRECISIONS)})(?:-dynamic|-int4)?$")


def _plain(name: str) -> str:
    return PRECISION.sub("", name.lower().rpartition("/")[2]).removesuffix("-bf16").removeprefix("meta-")


LEAST_SIMILAR = 0.4
"""Similarity of two names of one family, 0 to 1 (Python, `difflib`)."""


def _family(name: str) -> str:
    """The first word of a model's name, without numbers: `qwen`, `llama`, `mistral`."""
    words = re.findall(r"[a-z]+", name.rpartition("/")[2].lower())
    return next((word for word in words if word != "meta"), "")


@cache
def _entries() -> dict[str, Entry]:
    document = json.loads(text_of(__package__, FILE))
    return {entry["model"].lower(): entry_of(entry) for entry in document}
