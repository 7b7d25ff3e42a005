"""Speculative decoding with a real vLLM on the CPU: the operator's own arguments, and the same answers as without."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e import images
from e2e.images.detect import found_builder
from e2e.model.tiny_llama import model_folder
from inference_operator.engines.vllm.speculation import CONFIG, speculation_arguments
from inference_operator.sizing.plan import Drafting

SCRIPT = Path(__file__).parent / "model" / "run_speculation.py"
WORDS = ("amber", "basil", "cedar", "delta", "ember", "fern", "grape", "heron")
PROMPTS = [*(f"Tell me about {word}" for word in WORDS), " river stone river stone river stone river stone river"]
TOKENS = 48
NGRAM, DRAFT = Drafting("ngram", 3), Drafting("draft_model", 3, draft="/data/draft")


pytestmark = pytest.mark.full  # three starts of vLLM: minutes on a busy machine


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Mapping[str, Any]]:
    """Answers without speculation, with n-grams, and with a draft model."""
    images.build(["tiny-llama"])
    folder = tmp_path_factory.mktemp("speculation")
    shutil.copytree(model_folder(), folder / "model")
    texts = [text for drafting in (NGRAM, DRAFT) for text in speculation_arguments(drafting)]
    configs = [None, *(json.loads(text.removeprefix(f"{CONFIG}=")) for text in texts)]
    (folder / "jobs.json").write_text(json.dumps({"prompts": PROMPTS, "tokens": TOKENS, "configs": configs}))
    command = ("/opt/vllm/bin/python", f"/script/{SCRIPT.name}", "/data")
    volumes = {SCRIPT.parent: "/script:ro", folder: "/data"}
    found_builder().run("speculation", images.reference("engine-cpu"), command, volumes)
    found: list[Mapping[str, Any]] = json.loads((folder / "results.json").read_text())
    return found


def test_answers_at_temperature_0_are_those_without_speculation(results: list[Mapping[str, Any]]) -> None:
    plain, *others = results
    assert len(set(plain["texts"])) == len(PROMPTS)
    assert [other["texts"] for other in others] == [plain["texts"]] * 2


def test_vllm_counts_what_was_guessed_and_accepted(results: list[Mapping[str, Any]]) -> None:
    plain, ngram, draft = results
    assert "guessed" not in plain
    assert 0 < ngram["accepted"] <= ngram["guessed"] <= 3 * ngram["steps"], ngram  # its texts hardly repeat themselves
    assert 0 < draft["accepted"] < draft["guessed"] <= 3 * draft["steps"], draft
