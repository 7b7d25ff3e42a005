"""Write the catalogue of models from public copies of their `config.json`.

    python -m bench.catalogue FOLDER SOURCE [COLLECTED.json] > operator/inference_operator/models/catalogue.json

`FOLDER` has files `ORGANISATION--NAME_config.json`, and beside them `…_hf_quant_config.json` where there is one.
`SOURCE` is the `owner/repository@commit:path` of that folder. A file becomes an entry only if it is the whole config of
exactly the repository in its name: it has the `transformers_version` that transformers writes into every config that
it saves. Configs of other origin (aliases, training scripts, the base model of an instruct model) have wrong contexts,
and are not taken. `COLLECTED.json` adds the published size of checkpoints (`tests/testing/collected_models.json`).
A file that is left out is named on stderr.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from inference_operator.manifest import Manifest
from inference_operator.model_files.files import with_quantization
from inference_operator.models.checkpoint import Weights
from inference_operator.models.config import TEXT_CONFIGS, NotUnderstood
from inference_operator.models.entry import Entry, entry_document, entry_of
from inference_operator.models.model import model_facts
from inference_operator.models.slim import slim

ENDING, QUANTIZATION = "_config.json", "_hf_quant_config.json"


def name_of(file: Path) -> str:
    """The repository that a file is named after.

    Examples:
        >>> name_of(Path("Qwen--Qwen3-8B_config.json"))
        'Qwen/Qwen3-8B'
    """
    return file.name.removesuffix(ENDING).replace("--", "/", 1)


def is_whole(config: Manifest) -> bool:
    """Whether transformers has written this config, and nobody has shortened it.

    Examples:
        >>> is_whole({"transformers_version": "5.0"}), is_whole({"hidden_size": 64})
        (True, False)
    """
    parts = (config, *(part for name in TEXT_CONFIGS if isinstance(part := config.get(name), dict)))
    return any(part.get("transformers_version") for part in parts)


def entries(folder: Path, source: str, sizes: Mapping[str, Weights]) -> Iterator[Entry]:
    """The models of a folder."""
    for file in sorted(folder.glob(f"*{ENDING}"), key=lambda each: each.name.lower()):
        if file.name.endswith(QUANTIZATION):
            continue
        config = json.loads(file.read_text(encoding="utf-8"))
        quantization = file.with_name(file.name.removesuffix(ENDING) + QUANTIZATION)
        if quantization.exists():
            config = with_quantization(config, json.loads(quantization.read_text(encoding="utf-8")))
        name = name_of(file)
        facts = model_facts(config, sizes.get(name))
        why = facts.message if isinstance(facts, NotUnderstood) else "; ".join(facts.assumptions)
        if not is_whole(config) or why:
            print(f"{name}: left out: {why or 'not a whole config'}", file=sys.stderr)
            continue
        yield Entry(name, f"{source}/{file.name}", slim(config, sizes.get(name)), sizes.get(name))


def published_sizes(collected: Path) -> dict[str, Weights]:
    """The published sizes of checkpoints, by repository."""
    found = [entry_of(one) for one in json.loads(collected.read_text(encoding="utf-8"))]
    return {one.name: one.weights for one in found if one.weights}


def main(arguments: Sequence[str]) -> int:
    """Print the catalogue, one model a line."""
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    sizes = published_sizes(Path(arguments[2])) if arguments[2:] else {}
    found = entries(Path(arguments[0]), arguments[1].rstrip("/"), sizes)
    print("[\n" + ",\n".join(json.dumps(entry_document(one), separators=(",", ":")) for one in found) + "\n]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
