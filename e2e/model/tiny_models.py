"""Tiny models of every kind that vLLM serves in its own way, made inside the engine's image and kept as files."""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from e2e import images
from e2e.images.detect import found_builder
from e2e.images.process import log_path
from e2e.localkube.cache import cache_root
from e2e.model.tiny_llama import KEY_DIGITS

SCRIPT = Path(__file__).with_name("make_tiny_models.py")
_IMPORTED = SCRIPT.with_name("make_tiny_llama.py")
_PYTHON = "/opt/vllm/bin/python"


def tiny_models() -> Path:
    """The folder with a model in each subfolder; made unless it was made by the same scripts."""
    key = hashlib.sha256(SCRIPT.read_bytes() + _IMPORTED.read_bytes()).hexdigest()[:KEY_DIGITS]
    folder = cache_root() / "images" / "tiny-models" / f"models-{key}"
    if folder.is_dir():
        return folder
    images.build(["engine-cpu"])
    folder.parent.mkdir(parents=True, exist_ok=True)
    log_path("tiny-models").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as new:
        command = (_PYTHON, f"/script/{SCRIPT.name}", "/made/models")
        volumes = {SCRIPT.parent: "/script:ro", Path(new): "/made"}
        found_builder().run("tiny-models", images.reference("engine-cpu"), command, volumes)
        for old in folder.parent.glob("models-*"):
            shutil.rmtree(old)
        (Path(new) / "models").rename(folder)
    return folder


def expected() -> dict[str, Any]:
    """What transformers answers with each model."""
    answers: dict[str, Any] = json.loads((tiny_models() / "expected.json").read_text())
    return answers
