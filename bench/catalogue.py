"""Write the catalogue of models from public copies of their `config.json`.

    python -m bench.catalogue FOLDER SOURCE [COLLECTED.json] > operator/inference_operator/models/catalogue.json

`FOLDER` has files `ORGANISATION--NAME_config.json`, and beside them `…_hf_quant_config.json` where there is one.
`SOURCE` is the `owner/repository@commit:path` of that folder. A file becomes an entry only if it is the whole config of
exactly the repository in its name: it has the `transformers_version` that transformers writes into every config that
it saves. Configs of other origin (aliases, training scripts, the base model of an instruct model) have wrong contexts,
and are not taken. `COLLECTED.json` adds the published size of checkpoints (`tests/testing/collected_models.json`).
A file that is left out is named on stderr.

    python -m bench.catalogue merge [FOLDER SOURCE] > NEW.json

Adds to the catalogue the models of `e2e/vllm_parser/public_models.jsonl`, those of such a folder, and those of
`data/related_models.json`: each is `like` another model, with some fields `set`, and its source says `why`.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from inference_operator.manifest import Manifest
from inference_operator.model_files.files import QUANTIZATION_FILES, with_quantization
from inference_operator.models.catalogue import entry, names
from inference_operator.models.checkpoint import Weights
from inference_operator.models.config import TEXT_CONFIGS, NotUnderstood
from inference_operator.models.entry import Entry, entry_document, entry_of
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.side_files import NO_SIDE_FILES, side_files
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
        if not is_whole(config) or not _is_complete(facts):
            why = facts.message if isinstance(facts, NotUnderstood) else "; ".join(facts.assumptions)
            print(f"{name}: left out: {why if is_whole(config) else 'not a whole config'}", file=sys.stderr)
            continue
        yield Entry(name, f"{source}/{file.name}", slim(config, sizes.get(name)), sizes.get(name))


def merged(further: Iterable[Entry] = ()) -> list[Entry]:
    """The catalogue with all public and related models and these further ones, by name. Sizes of checkpoints stay."""
    found = {one.name: one for one in further} | {name: one for name in names() if (one := entry(name))}
    collected = {one["model"]: entry_of(one) for one in json.loads(COLLECTED.read_text(encoding="utf-8"))}
    for line in PUBLIC.read_text(encoding="utf-8").splitlines():
        model = json.loads(line)
        name, config = model["model"], _config(model["files"])
        more = len(model["files"]) > 1
        side = side_files(dict.fromkeys(model["files"], 0), model["files"].__getitem__) if more else NO_SIDE_FILES
        weights = found[name].weights if name in found else None
        if VARIANT not in name and _is_complete(model_facts(config, weights, side)):
            found[name] = Entry(name, model["source"], slim(config, weights, side), weights, side=side)
    for row in json.loads(RELATED.read_text(encoding="utf-8")):
        like = found.get(row["like"]) or collected[row["like"]]
        same = row["like"] == row["model"] and not row["set"]
        source = like.source if same else f"{like.source} ({row['why']})"
        config = slim({**like.config, **row["set"]}, None, like.side)
        found.setdefault(row["model"], Entry(row["model"], source, config, None, side=like.side))
    return [found[name] for name in sorted(found, key=str.lower)]


def _is_complete(facts: ModelFacts | NotUnderstood) -> bool:
    """Whether nothing about the language model is assumed."""
    if isinstance(facts, NotUnderstood) or not facts.context_stated:
        return False
    return set(facts.assumptions) <= set(facts.tower.assumptions if facts.tower else ())


VARIANT = " with "
"""In the name of a public model: its config with a changed field, and no repository."""
RELATED = Path(__file__).parent / "data" / "related_models.json"
PUBLIC = Path(__file__).parents[1] / "e2e" / "vllm_parser" / "public_models.jsonl"
COLLECTED = Path(__file__).parents[1] / "tests" / "testing" / "collected_models.json"


def _config(files: Manifest) -> Manifest:
    stored = next((files[file] for file in QUANTIZATION_FILES if file in files), None)
    return with_quantization(files["config.json"], stored)


def published_sizes(collected: Path) -> dict[str, Weights]:
    """The published sizes of checkpoints, by repository."""
    found = [entry_of(one) for one in json.loads(collected.read_text(encoding="utf-8"))]
    return {one.name: one.weights for one in found if one.weights}


def main(arguments: Sequence[str]) -> int:
    """Print the catalogue, one model a line."""
    merging = list(arguments[:1]) == ["merge"]
    folder = arguments[merging:]
    if len(folder) not in ((0, 2) if merging else (2, 3)):
        print(__doc__, file=sys.stderr)
        return 2
    sizes = published_sizes(Path(folder[2])) if folder[2:] else {}
    read = entries(Path(folder[0]), folder[1].rstrip("/"), sizes) if folder else ()
    found = merged(read) if merging else read
    print("[\n" + ",\n".join(json.dumps(entry_document(one), separators=(",", ":")) for one in found) + "\n]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
