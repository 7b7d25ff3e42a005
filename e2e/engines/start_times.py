"""Starts of a real vLLM on this machine's CPU, cold and warm, with the times of its log."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import images
from e2e.engines.cache_memory import planned
from e2e.helpers.free_ports import free_port
from e2e.images.detect import found_builder
from e2e.images.process import log_path
from e2e.model.kinds import CONTEXT, KINDS, LARGE
from e2e.model.tiny_llama import model_folder
from inference_operator.api.engine import EngineSpec
from inference_operator.engines.process import ServedModel, Timeouts
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts

ASKED = EngineSpec(
    args=("--enforce-eager", f"--kv-cache-memory-bytes={512 * 2**20}"), maxModelLen=CONTEXT, maxNumSeqs=16
)
"""The image for CPUs has no compiler."""
THREADS = 4
IN_THREADS = f'--model-loader-extra-config={{"enable_multithread_load":true,"num_threads":{THREADS}}}'
"""vLLM 0.32.0, model_executor/model_loader/default_loader.py. Without it, one thread loads all files."""
SCRIPT = Path(__file__).parents[1] / "model" / "run_starts.py"
_NAME, _PYTHON, _SERVED = "engine-starts", "/opt/vllm/bin/python", "tiny"


@dataclass(frozen=True, slots=True)
class Way:
    """How an engine is started."""

    is_cold: bool
    """Whether model and program have to be read from the disk."""
    in_threads: bool = False
    """Whether several threads load the weights."""


@dataclass(frozen=True, slots=True)
class TimedStart:
    """One start; times are seconds since the process was created."""

    way: Way
    lines: Sequence[tuple[float, str]]
    """The log."""
    ready: float
    answered: float
    """When it had answered the first request."""


def timed_starts(ways: Sequence[Way]) -> list[TimedStart]:
    """Start a model with 1.3 GB of weights in each of these ways, one start after the other."""
    images.build(["tiny-llama"])
    log_path(_NAME).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(model_folder() / name, folder)
        (folder / "job.json").write_text(json.dumps(_job(ways)))
        volumes = {SCRIPT.parent: "/script:ro", folder: "/data"}
        found_builder().run(
            _NAME, images.reference("engine-cpu"), (_PYTHON, f"/script/{SCRIPT.name}", "/data"), volumes
        )
        starts = json.loads((folder / "starts.json").read_text())
    return [
        TimedStart(
            way, [(float(at), str(text)) for at, text in one["lines"]], float(one["ready"]), float(one["answered"])
        )
        for way, one in zip(ways, starts, strict=True)
    ]


def _job(ways: Sequence[Way]) -> Mapping[str, Any]:
    model, port, config = "/tmp/loaded", free_port(), KINDS[LARGE]  # noqa: S108 - in a container of its own
    facts = model_facts({**config, "dtype": "bfloat16"})
    plan = planned(facts if isinstance(facts, ModelFacts) else None)
    timeouts = Timeouts(startup=600, dns_staleness=0, drain=0)
    process = Vllm(port=port).process(ASKED, plan, ServedModel(model, _SERVED), timeouts)
    return {
        "config": config,
        "model": model,
        "served": _SERVED,
        "ways": [{"cold": way.is_cold, "args": [IN_THREADS] if way.in_threads else []} for way in ways],
        "url": f"http://127.0.0.1:{port}",
        "command": [*process.command, *process.args, f"--port={port}"],  # the last of two options counts
        "env": {variable.name: variable.value for variable in process.env if variable.value is not None},
    }
