"""Memory that vLLM on a CPU allocates for LoRA adapters and for a draft model, and what the operator computes."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import images
from e2e.images.detect import found_builder
from e2e.images.process import log_path
from e2e.model.kinds import KINDS
from e2e.model.tiny_llama import model_folder
from inference_operator.engines.vllm.memory import vllm_cpu_memory
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.sizing.kv_cache import cache_layout
from inference_operator.sizing.lora_and_speculative import adapters_gib
from inference_operator.sizing.shape import Adapters, Shape, Speculation
from inference_operator.units import GIB

CACHE_BYTES = 64 * 2**20
ADAPTERS = Adapters(rank=16, active=2)
SPECULATIVE_TOKENS = 3
DRAFTED = "grouped-query"
ADAPTED = ("grouped-query", "mixture of experts", "latent")
DRAFT = {**KINDS[DRAFTED], "num_hidden_layers": 1, "dtype": "bfloat16"}
OPTIONS = {"max_model_len": 2048, "max_num_seqs": 8, "kv_cache_memory_bytes": CACHE_BYTES}
WITH_ADAPTERS = {"enable_lora": True, "max_loras": ADAPTERS.active, "max_lora_rank": ADAPTERS.rank}
SCRIPT = Path(__file__).parents[1] / "model" / "run_adapter_memory.py"


@dataclass(frozen=True, slots=True)
class Beside:
    """Computed and measured value of one model: bytes of its adapters, or blocks of its KV cache."""

    name: str
    computed: int
    measured: int


def measured() -> tuple[list[Beside], Beside]:
    """Bytes of the adapters of each model, and blocks of a KV cache that a draft model shares."""
    images.build(["tiny-llama"])
    log_path("beside").unlink(missing_ok=True)
    adapted = [{"config": _config(name), "options": {**OPTIONS, **WITH_ADAPTERS}} for name in ADAPTED]
    drafted = {"config": _config(DRAFTED), "draft": DRAFT, "guessed": SPECULATIVE_TOKENS, "options": OPTIONS}
    *loaded, shared = _results([*adapted, drafted])
    bytes_kept = [
        Beside(
            name, round(adapters_gib(_facts(_config(name)), Shape(adapters=ADAPTERS)) * GIB), result["adapter_bytes"]
        )
        for name, result in zip(ADAPTED, loaded, strict=True)
    ]
    return bytes_kept, Beside(DRAFTED, _blocks(), shared["blocks"])


def _blocks() -> int:
    speculation = Speculation(SPECULATIVE_TOKENS, draft="draft", draft_facts=_facts(DRAFT))
    layout = cache_layout(_facts(_config(DRAFTED)), vllm_cpu_memory(latent=False), Shape(speculation=speculation))
    return int(CACHE_BYTES // layout.unit_bytes)


def _results(jobs: list[dict[str, Any]]) -> list[dict[str, int]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(model_folder() / name, folder)
        (folder / "jobs.json").write_text(json.dumps(jobs))
        volumes = {SCRIPT.parent: "/script:ro", folder: "/data"}
        command = ("/opt/vllm/bin/python", f"/script/{SCRIPT.name}", "/data")
        found_builder().run("beside", images.reference("engine-cpu"), command, volumes)
        results: list[dict[str, int]] = json.loads((folder / "results.json").read_text())
    return results


def _config(name: str) -> Mapping[str, object]:
    return {**KINDS[name], "dtype": "bfloat16"}


def _facts(config: Mapping[str, object]) -> ModelFacts:
    facts = model_facts(config)
    if not isinstance(facts, ModelFacts):
        raise TypeError(facts.message)
    return facts
