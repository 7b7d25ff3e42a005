# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: reads argument lists with SGLang's own parser, and names from its source.

python parse.py QUESTION.json RESULT.json FOLDER

The folder has SGLang's package. Triton and IPython, which the parser's module imports and does not use, are not there.
"""

# SGLang is in the folder, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

FOLDER = Path(sys.argv[3])
sys.path.insert(0, str(FOLDER))
sys.modules |= dict.fromkeys(
    ("triton", "triton.language", "triton.runtime", "triton.runtime.autotuner", "IPython", "IPython.display"),
    MagicMock(),
)

from sglang.srt.server_args import ServerArgs  # noqa: E402 - it needs the lines above

SOURCE = FOLDER / "sglang" / "srt"
CHOICES = {"tool": "tool_call_parser", "reasoning": "reasoning_parser", "quantization": "quantization"}


def main() -> None:
    """Parse every list; a list that SGLang refuses ends the process with SGLang's own message."""
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    lists = json.loads(Path(sys.argv[1]).read_text())
    actions = [one for one in parser._actions if one.option_strings]  # noqa: SLF001 - no public way
    long = [(name, one.nargs == 0) for one in actions for name in one.option_strings if name.startswith("--")]
    result = {
        "read": [{name: _plain(value) for name, value in vars(parser.parse_args(one)).items()} for one in lists],
        "options": dict(long),
        "choices": {
            kind: sorted(next(a.choices or () for a in actions if a.dest == dest)) for kind, dest in CHOICES.items()
        },
        "models": sorted(set(_models())),
        "multimodal": _multimodal(),
    }
    Path(sys.argv[2]).write_text(json.dumps(result))


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _models() -> Iterator[str]:
    """Names of the classes of models."""
    for file in sorted((SOURCE / "models").rglob("*.py")):
        for one in ast.parse(file.read_text()).body:
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "EntryClass":
                named = one.value.elts if isinstance(one.value, ast.List | ast.Tuple) else [one.value]
                yield from map(ast.unparse, named)


def _multimodal() -> list[str]:
    """Names of the architectures that read more than text; the list takes in the names of other lists."""
    named: dict[str, ast.expr] = {
        ast.unparse(one.targets[0]): one.value
        for one in ast.parse((SOURCE / "configs" / "model_config.py").read_text()).body
        if isinstance(one, ast.Assign)
    }

    def strings(value: ast.expr) -> Iterator[str]:
        for one in value.elts if isinstance(value, ast.List | ast.Tuple) else ():
            if isinstance(one, ast.Starred):
                yield from strings(named[ast.unparse(one.value)])
            else:
                yield ast.literal_eval(one)

    return [*strings(named["multimodal_model_archs"]), *_processed()]


def _processed() -> Iterator[str]:
    """Names of the architectures that have a processor of images or sound."""
    for file in sorted((SOURCE / "multimodal" / "processors").rglob("*.py")):
        for one in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(one, ast.Assign)
                and ast.unparse(one.targets[0]) == "models"
                and isinstance(one.value, ast.List | ast.Tuple)
            ):
                yield from map(ast.unparse, one.value.elts)


if __name__ == "__main__":
    main()
