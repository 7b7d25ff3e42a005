"""Write the facts about models that vLLM's recipes state: parsers, KV caches and quantized checkpoints.

    python -m bench.recipes FOLDER COMMIT > bench/data/recipes.json

`FOLDER` is a copy of https://github.com/vllm-project/recipes at `COMMIT`. Tests compare the parsers of each family with
these, and `docs/reference/models.md` lists the models that the catalogue lacks.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

TOOL_CALL, REASONING, KV_CACHE = "--tool-call-parser", "--reasoning-parser", "--kv-cache-dtype"


def value(arguments: Sequence[str], flag: str) -> str:
    """The value of a flag; empty without it.

    Examples:
        >>> value(["--reasoning-parser", "qwen3"], "--reasoning-parser"), value(["--x"], "--reasoning-parser")
        ('qwen3', '')
    """
    joined = "\0".join(arguments).replace("=", "\0").split("\0")
    return next((value for name, value in pairwise(joined) if name == flag), "")


def models(folder: Path) -> Iterator[dict[str, str | int]]:
    """Each model and variant of the recipes, with its parsers, empty where a recipe states none.

    A variant also has the type of its KV cache where the recipe sets one for GPUs of every kind, its model, its
    precision, and the GB of GPU memory that it needs at least.
    """
    seen = set()
    for file in sorted(folder.glob("models/*/*.yaml")):
        recipe = yaml.safe_load(file.read_text(encoding="utf-8"))
        arguments = [str(argument) for argument in _arguments(recipe)]
        parsers = {"tool": value(arguments, TOOL_CALL), "reasoning": value(arguments, REASONING)}
        variants = recipe.get("variants") or {}
        own, always = variants.get("default") or {}, recipe["model"].get("base_args") or ()
        itself = {**recipe["model"], "extra_args": () if "model_id" in own else own.get("extra_args")}
        for part in (itself, *variants.values()):
            name = part.get("model_id")
            if name and name not in seen:
                seen.add(name)
                stated = [str(argument) for argument in (*(part.get("extra_args") or ()), *always)]
                kept = value(stated, KV_CACHE)
                sizes = {"precision": part["precision"], "gb": part["vram_minimum_gb"]} if "precision" in part else {}
                base = {"of": recipe["model"]["model_id"]} if name != recipe["model"]["model_id"] else {}
                yield {"model": name, **parsers, **({"kv": kept} if kept not in ("", "auto") else {}), **base, **sizes}


def _arguments(recipe: Any) -> Iterator[Any]:  # noqa: ANN401 - a YAML document
    yield from recipe["model"].get("base_args") or []
    for feature in (recipe.get("features") or {}).values():
        yield from feature.get("args") or []


def main(arguments: Sequence[str]) -> int:
    """Print the facts, one model a line."""
    if len(arguments) != 2:  # noqa: PLR2004 - as the usage says
        print(__doc__, file=sys.stderr)
        return 2
    lines = ",\n".join(f"  {json.dumps(model)}" for model in models(Path(arguments[0])))
    print(f'{{\n "source": "vllm-project/recipes@{arguments[1]}",\n "models": [\n{lines}\n ]\n}}')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
