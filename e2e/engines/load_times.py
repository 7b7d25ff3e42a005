"""Times of requests to a real vLLM on this machine's CPU, at several concurrencies."""

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
from e2e.model.kinds import CONTEXT, KINDS
from e2e.model.tiny_llama import model_folder
from inference_operator.api.engine import EngineSpec
from inference_operator.engines.process import ServedModel, Timeouts
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts

BATCHED_TOKENS, SEQUENCES = 512, 64
CONFIG: Mapping[str, object] = {
    **KINDS["grouped-query"],
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
}
"""0.1 billion parameters: a step takes long enough that the client and the server's own work hardly count."""
ASKED = EngineSpec(
    args=("--enforce-eager", "--no-enable-prefix-caching", f"--kv-cache-memory-bytes={512 * 2**20}"),
    maxModelLen=CONTEXT,
    maxNumBatchedTokens=BATCHED_TOKENS,
    maxNumSeqs=SEQUENCES,
)
PROMPTS, ANSWERS = (64, 192), (24, 72)
"""Fewest and most tokens."""
REQUESTS_PER_CLIENT, FEWEST_REQUESTS = 3, 12
STEADY_REQUESTS = 400
"""Of a round at a rate: a part of 95 % of them has a standard deviation of 1.1 points."""
SCRIPT = Path(__file__).parents[1] / "model" / "run_load.py"
_PYTHON = "/opt/vllm/bin/python"
_SERVED = "tiny"


@dataclass(frozen=True, slots=True)
class Timed:
    """One request."""

    began: float
    """Seconds since the first request of its round."""
    first_token: float
    """Seconds from the request to its first token."""
    token: float
    """Seconds of each further token."""
    prompt: int
    answer: int


def timed_requests(concurrencies: Sequence[int], parts: Sequence[float] = ()) -> list[list[Timed]]:
    """Serve the model, and send requests with each of these concurrencies, and at each of these parts of the rate.

    The rate is that of the concurrency that ends most requests in a second.
    """
    images.build(["tiny-llama"])
    log_path("engine-load").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(model_folder() / name, folder)
        (folder / "job.json").write_text(json.dumps(job(concurrencies, parts)))
        volumes = {SCRIPT.parent: "/script:ro", folder: "/data"}
        command = (_PYTHON, f"/script/{SCRIPT.name}", "/data")
        found_builder().run("engine-load", images.reference("engine-cpu"), command, volumes)
        rounds = json.loads((folder / "rounds.json").read_text())
    return [_timed(one) for one in rounds]


def _timed(requests: Sequence[Mapping[str, float]]) -> list[Timed]:
    start = min(one["began"] for one in requests)
    return [
        Timed(
            began=one["began"] - start,
            first_token=one["first"] - one["began"],
            token=(one["ended"] - one["first"]) / (one["answer"] - 1),
            prompt=int(one["prompt"]),
            answer=int(one["answer"]),
        )
        for one in sorted(requests, key=lambda one: one["began"])
    ]


def job(concurrencies: Sequence[int], parts: Sequence[float]) -> Mapping[str, Any]:
    """What the script in the engine's image is told."""
    model, port = "/tmp/loaded", free_port()  # noqa: S108 - in a container of its own
    facts = model_facts({**CONFIG, "dtype": "bfloat16"})
    plan = planned(facts if isinstance(facts, ModelFacts) else None, ASKED)
    timeouts = Timeouts(startup=600, dns_staleness=0, drain=0)
    process = Vllm(port=port).process(ASKED, plan, ServedModel(model, _SERVED), timeouts)
    return {
        "config": CONFIG,
        "model": model,
        "served": _SERVED,
        "prompts": PROMPTS,
        "answers": ANSWERS,
        "warm": _round(4),
        "rounds": [_round(one) for one in concurrencies],
        "steady": [{"part": one, "concurrency": SEQUENCES, "requests": STEADY_REQUESTS} for one in parts],
        "url": f"http://127.0.0.1:{port}",
        "command": [*process.command, *process.args, f"--port={port}"],  # the last of two options counts
        "env": {variable.name: variable.value for variable in process.env if variable.value is not None},
    }


def _round(concurrency: int) -> Mapping[str, int]:
    return {"concurrency": concurrency, "requests": max(FEWEST_REQUESTS, REQUESTS_PER_CLIENT * concurrency)}
