"""Argument lists parsed by vLLM's own parser. `python -m e2e.engines.vllm_options` rewrites the tables of its names."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e import images
from e2e.images.detect import found_builder
from inference_operator.engines.vllm import options

SCRIPT = Path(__file__).parents[1] / "vllm_parser"
TABLE = Path(options.__file__).with_name(f"options-{options.VERSION}.txt")
VARIABLES = Path(options.__file__).with_name(f"variables-{options.VERSION}.txt")
METHODS = Path(options.__file__).with_name(f"methods-{options.VERSION}.txt")
ENCODERS = Path(options.__file__).with_name(f"encoders-{options.VERSION}.txt")
PARSERS = Path(options.__file__).with_name(f"parsers-{options.VERSION}.txt")
TRAITS = Path(options.__file__).with_name(f"traits-{options.VERSION}.txt")
ATTENTION = Path(options.__file__).with_name(f"attention-{options.VERSION}.txt")
IN_ENCODERS = "whole-encoder"
"""The trait that has a table of its own."""


def parsed(lists: Sequence[Sequence[str]], folder: Path) -> dict[str, Any]:
    """Values that vLLM parses from each list, its options and its variables; `folder` holds the files in between."""
    result: dict[str, Any] = answer_of("parse", lists, folder)
    return result


def derived(cases: Sequence[dict[str, Any]], folder: Path, *, tables: bool = True) -> dict[str, Any]:
    """What vLLM's configuration classes derive from each case (`vllm_parser/derive.py`), and what its tables have."""
    result: dict[str, Any] = answer_of("derive", {"cases": cases, "tables": tables}, folder)
    return result


def fetched(cases: Sequence[Mapping[str, Any]], folder: Path) -> list[list[bool]]:
    """Whether vLLM gets an image from each URL of each case (`vllm_parser/fetch.py`)."""
    result: list[list[bool]] = answer_of("fetch", cases, folder)
    return result


def answer_of(script: str, question: object, folder: Path) -> Any:  # noqa: ANN401 - any JSON
    """The result of a script of `vllm_parser`, which runs in the engine's image; `folder` holds question and result."""
    (folder / "question.json").write_text(json.dumps(question))
    images.build(["engine-cpu"])
    command = ("/opt/vllm/bin/python", f"/script/{script}.py", "/data/question.json", "/data/result.json")
    volumes = {SCRIPT: "/script:ro", folder: "/data"}
    found_builder().run(f"vllm-{script}", images.reference("engine-cpu"), command, volumes)
    return json.loads((folder / "result.json").read_text())


def tables(answer: Mapping[str, Any]) -> dict[Path, str]:
    """The texts of the tables, from the answer of `derived`."""
    rows = {
        PARSERS: [f"{kind} {name}" for kind, names in answer["parsers"].items() for name in names],
        METHODS: [
            *(f"method {name} {one['capability']} {' '.join(one['types'])}" for name, one in answer["methods"].items()),
            *(f"no-float16 {name}" for name in answer["no_float16"]),
            *(f"online {name}" for name in answer["online"]),
            " ".join(("sparse-mla", *map(str, answer["sparse_mla"]))),
        ],
        ENCODERS: answer["traits"][IN_ENCODERS],
        TRAITS: [f"{kind} {name}" for kind, names in answer["traits"].items() if kind != IN_ENCODERS for name in names],
        ATTENTION: [
            " ".join((kind, kv_type, *capabilities))
            for kind, by_type in answer["attention"].items()
            for kv_type, capabilities in by_type.items()
        ],
    }
    return {path: "".join(f"{line}\n" for line in lines) for path, lines in rows.items()}


def main() -> None:
    """Write the tables."""
    with tempfile.TemporaryDirectory() as folder:
        names = parsed([], Path(folder))
        texts = {
            TABLE: "".join(f"{line}\n" for line in names["options"]),
            VARIABLES: "".join(f"{name}\n" for name in names["variables"]),
            **tables(derived([], Path(folder))),
        }
    for path, text in texts.items():
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
