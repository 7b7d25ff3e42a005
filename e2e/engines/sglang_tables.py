"""SGLang's own parser and source, from PyPI. `python -m e2e.engines.sglang_tables` rewrites their tables."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e import images
from e2e.deploy.uv import uv
from e2e.images.detect import found_builder
from inference_operator.engines.sglang import options
from inference_operator.engines.sglang.options import VERSION

SCRIPT = Path(__file__).parents[1] / "sglang_parser"
PYTHON, PLATFORM = "3.13", "x86_64-manylinux_2_40"
"""Those of the image."""
PACKAGES = (f"sglang=={VERSION}", "orjson==3.13.0")
"""All else that the parser needs is in the image."""
NO_TEXT = re.compile(
    r"NextN|MTP$|Eagle|DSpark|DFlash|Assistant"  # draft models
    r"|^(Transformers|TorchNative|MindSpore)"  # other implementations
    r"|^(SDAR|YiVL|Beam|Quant)"  # diffusion, images, search, a quantized form of another model
    r"|^(Mamba|FalconMamba)"  # without attention: their state is not sized
)
_GENERATES = re.compile(r"(ForCausalLM|LMHeadModel)$|^ChatGLMModel$")


def answer_of(lists: Sequence[Sequence[str]], folder: Path) -> dict[str, Any]:
    """Values that SGLang parses from each list, its options, choices and models; `folder` is an empty one."""
    package = folder / "package"
    wheels = ("--no-deps", "--only-binary=:all:", f"--python-version={PYTHON}", f"--python-platform={PLATFORM}")
    uv("pip", "install", *wheels, f"--target={package}", *PACKAGES)
    (folder / "question.json").write_text(json.dumps(lists))
    images.build(["engine-cpu"])
    command = ("/opt/vllm/bin/python", "/script/parse.py", "/data/question.json", "/data/result.json", "/data/package")
    found_builder().run("sglang", images.reference("engine-cpu"), command, {SCRIPT: "/script:ro", folder: "/data"})
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def tables(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """The tables by the name of their files."""
    parsers = (f"{kind} {name}" for kind, names in sorted(answer["choices"].items()) for name in _offered(names))
    flags = (name for name, is_flag in answer["options"].items() if is_flag and _is_offered(name))
    models = (
        name
        for name in answer["models"]
        if _GENERATES.search(name) and not NO_TEXT.search(name) and name not in answer["multimodal"]
    )
    found = {"parsers": parsers, "flags": sorted(flags), "architectures": models}
    return {f"{name}-{VERSION}.txt": "".join(f"{line}\n" for line in lines) for name, lines in found.items()}


def _offered(names: Sequence[str]) -> Iterator[str]:
    """Without the choice by the model's template, and without methods that need another loader."""
    return (name for name in names if name not in ("auto", "gguf", "bitsandbytes"))


def _is_offered(name: str) -> bool:
    return name not in options.CLASSES.managed


def main() -> None:
    """Write the tables."""
    with tempfile.TemporaryDirectory() as folder:
        answer = answer_of([], Path(folder))
    for name, text in tables(answer).items():
        path = Path(options.__file__).with_name(name)
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
