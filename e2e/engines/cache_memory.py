"""KV cache and memory of vLLM on a CPU, measured, and what the operator computes."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import images
from e2e.helpers.free_ports import free_port
from e2e.images.detect import found_builder
from e2e.images.process import log_path
from e2e.model.kinds import CONTEXT, KINDS, LARGE
from e2e.model.tiny_llama import model_folder
from inference_operator.api.engine import EngineSpec
from inference_operator.engines.process import ServedModel, Timeouts
from inference_operator.engines.vllm.memory import vllm_cpu_memory
from inference_operator.engines.vllm.metrics import CACHE_INFO, engine_sample
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.quantity import value
from inference_operator.sizing.cpu import cpu_needs
from inference_operator.sizing.kv_cache import AllocatedCache, allocated_cache, cache_layout
from inference_operator.sizing.plan import Plan, cpu_plan
from inference_operator.sizing.shape import Shape, SizingInputs

CACHE_BYTES = 256 * 2**20
BATCHED_TOKENS = 2048
"""Set explicitly, like the context: vLLM has other defaults on CPUs."""
ASKED = EngineSpec(
    args=("--enforce-eager", f"--kv-cache-memory-bytes={CACHE_BYTES}"),
    maxModelLen=CONTEXT,
    maxNumBatchedTokens=BATCHED_TOKENS,
)
SPARE_TOKENS = 64
"""Difference of the prompt to the context, so that an answer fits after the prompt."""
LARGE_TOKENS = 512
"""Length of each prompt to the large model; longer ones take minutes on two cores."""
AT_ONCE = 2
"""Engines at a time: each waits for one core most of its start. The large one has the machine for itself."""
SCRIPT = Path(__file__).parents[1] / "model" / "run_kinds.py"
_PYTHON = "/opt/vllm/bin/python"
_SERVED = "tiny"


@dataclass(frozen=True, slots=True)
class Size:
    """One model: computed and measured figures."""

    name: str
    computed: AllocatedCache | None
    """None if the operator does not understand the config."""
    told_blocks: int
    told_tokens: int
    error: str
    """vLLM's message if it cannot start or run the model."""
    computed_weights: int
    file_bytes: int
    requested_bytes: int
    """Memory request of the engine's pod."""
    memory_bytes: int
    """Largest memory of all processes together, without the pages of files."""


def sizes(names: Sequence[str] = tuple(KINDS)) -> list[Size]:
    """Serve each of these models once with the operator's arguments; returns computed and measured figures."""
    images.build(["tiny-llama"])
    log_path("sizes").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(model_folder() / name, folder)
        (folder / "jobs.json").write_text(json.dumps([_job(name, number) for number, name in enumerate(names)]))
        volumes = {SCRIPT.parent: "/script:ro", folder: "/data"}
        command = (_PYTHON, f"/script/{SCRIPT.name}", "/data", str(1 if LARGE in names else AT_ONCE))
        found_builder().run("sizes", images.reference("engine-cpu"), command, volumes)
        results = json.loads((folder / "results.json").read_text())
    return [_size(name, result) for name, result in zip(names, results, strict=True)]


def computed(facts: ModelFacts) -> AllocatedCache:
    """Blocks and tokens of the KV cache as the operator computes them."""
    memory = vllm_cpu_memory(latent=facts.uses_mla)
    layout = cache_layout(facts, memory, Shape(context=CONTEXT))
    return allocated_cache(layout, memory, size=CACHE_BYTES, context=CONTEXT, batched=BATCHED_TOKENS)


def planned(facts: ModelFacts | None, asked: EngineSpec = ASKED) -> Plan:
    """The plan of the engine's pod by the operator's rules for CPUs."""
    shape = Vllm().shape(asked)
    needs = cpu_needs(facts, vllm_cpu_memory(latent=facts is not None and facts.uses_mla), shape)
    return cpu_plan(SizingInputs(shape=shape), needs, facts, downloads=False)


def _facts(name: str) -> ModelFacts | None:
    facts = model_facts({**KINDS[name], "dtype": "bfloat16"})
    return facts if isinstance(facts, ModelFacts) else None


def _job(name: str, number: int) -> Mapping[str, Any]:
    model, port = f"/tmp/kind-{number}", free_port()  # noqa: S108 - in a container of its own
    timeouts = Timeouts(startup=600, dns_staleness=0, drain=0)
    served = ServedModel(model, _SERVED)
    process = Vllm(port=port).process(ASKED, planned(_facts(name)), served, timeouts)
    return {
        "name": name,
        "config": KINDS[name],
        "model": model,
        "served": _SERVED,
        "tokens": LARGE_TOKENS if name == LARGE else CONTEXT - SPARE_TOKENS,
        "url": f"http://127.0.0.1:{port}",
        "command": [*process.command, *process.args, f"--port={port}"],  # the last of two options counts
        "env": {variable.name: variable.value for variable in process.env if variable.value is not None},
    }


def _size(name: str, result: Mapping[str, Any]) -> Size:
    facts = _facts(name)
    sample = engine_sample(result["metrics"])
    return Size(
        name=name,
        computed=computed(facts) if facts else None,
        told_blocks=_blocks(result["metrics"]),
        told_tokens=(sample.kv_cache_tokens or 0) if sample else 0,
        error=result["error"],
        computed_weights=facts.weight_bytes if facts else 0,
        file_bytes=result["file_bytes"],
        requested_bytes=int(value(planned(facts).memory)),
        memory_bytes=result["memory_bytes"],
    )


def _blocks(metrics: str) -> int:
    """The number of KV cache blocks, which the operator does not read."""
    line = next((line for line in metrics.splitlines() if line.startswith(f"{CACHE_INFO}{{")), "")
    _, _, rest = line.partition('num_gpu_blocks="')
    return int(rest.partition('"')[0] or 0)
