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


def parsed(lists: Sequence[Sequence[str]], folder: Path) -> dict[str, Any]:
    """Values that vLLM parses from each list, its options and its variables; `folder` holds the files in between."""
    result: dict[str, Any] = answer_of("parse", lists, folder)
    return result


def derived(cases: Sequence[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """What vLLM's configuration classes derive from each case (`vllm_parser/derive.py`), and its parsers' names."""
    result: dict[str, Any] = answer_of("derive", cases, folder)
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


def methods_text(answer: Mapping[str, Any]) -> str:
    """The table of methods of quantization and attention, from the answer of `derived`."""
    lines = [
        " ".join(("method", name, str(one["capability"]), *one["types"])) for name, one in answer["methods"].items()
    ]
    lines += [f"no-float16 {name}" for name in answer["no_float16"]]
    lines.append(" ".join(("sparse-mla", *map(str, answer["sparse_mla"]))))
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Write the tables."""
    with tempfile.TemporaryDirectory() as folder:
        names = parsed([], Path(folder))
        TABLE.write_text("".join(f"{line}\n" for line in names["options"]))
        VARIABLES.write_text("".join(f"{name}\n" for name in names["variables"]))
        answer = derived([], Path(folder))
        found = answer["parsers"]
        PARSERS.write_text("".join(f"{kind} {name}\n" for kind, names in found.items() for name in names))
        METHODS.write_text(methods_text(answer))
        ENCODERS.write_text("".join(f"{name}\n" for name in answer["whole_encoders"]))
    print(TABLE, VARIABLES, PARSERS, METHODS, ENCODERS)


if __name__ == "__main__":
    main()
