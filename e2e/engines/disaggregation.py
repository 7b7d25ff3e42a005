"""A prefill and a decode engine of the tiny model in one container: what is wrong with their answers in each case."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e import images
from e2e.images.detect import found_builder
from e2e.images.process import log_path
from e2e.model.tiny_llama import model_folder
from inference_operator.engines.kv_transfer import KVTransfer, TransferRole
from inference_operator.engines.programs import PROGRAMS_VARIABLE, programs_text
from inference_operator.engines.vllm.disaggregation import lease_seconds, transfer_start

SCRIPT = Path(__file__).parents[1] / "model" / "run_disaggregation.py"
OBJECTIVE = 5.0
"""Seconds to the first token: so many that a busy machine keeps them, so few that leases end within a test."""
SEQUENCES, CLIENTS = 16, 8
LEAST_TOKENS = 20
CACHE_BYTES = 4 * 2**20
"""4,096 tokens: prompts of several clients wait for blocks."""
SIDE, DECODE_SIDE = 5600, 5620
_NAME, _PYTHON, _MODEL, _FORWARDER = "disaggregation", "/opt/vllm/bin/python", "/model", "http://127.0.0.1:8100"


def wrong_answers(cases: Sequence[str] = (), *, prompts: int) -> dict[str, str]:
    """What is wrong in each of these cases, or in all; empty texts where nothing is."""
    images.build(["engine-cpu", "tiny-llama"])
    log_path(_NAME).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "job.json").write_text(json.dumps(job(prompts)))
        volumes = {SCRIPT.parent: "/script:ro", model_folder(): f"{_MODEL}:ro", Path(place): "/data"}
        command = (_PYTHON, f"/script/{SCRIPT.name}", "/data", *cases)
        found_builder().run(_NAME, images.reference("engine-cpu"), command, volumes)
        wrong: dict[str, str] = json.loads((Path(place) / "results.json").read_text())
    return wrong


def job(prompts: int) -> dict[str, Any]:
    """What the script in the container needs to know."""
    return {
        "model": _MODEL,
        "prompts": prompts,
        "clients": CLIENTS,
        "sequences": SEQUENCES,
        "side": SIDE,
        "lease": lease_seconds(OBJECTIVE),
        "args": [
            "--served-model-name=tiny",
            "--host=127.0.0.1",
            "--enforce-eager",
            "--dtype=float32",
            f"--max-num-seqs={SEQUENCES}",
            f"--kv-cache-memory-bytes={CACHE_BYTES}",
        ],
        "env": {
            "OMP_NUM_THREADS": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "UCX_TLS": "tcp",
            "USER": "vllm",
            "HF_HUB_OFFLINE": "1",
        },
        "alone": {"command": (), "options": (), "env": {}},
        **{role.name.lower(): _role(role) for role in TransferRole},
    }


def _role(role: TransferRole) -> Mapping[str, Any]:
    """Both roles have one address here, and so not one port of the side channel."""
    decodes = role is TransferRole.DECODE
    transfer = KVTransfer(role, "one", _FORWARDER if decodes else "", LEAST_TOKENS if decodes else 0, OBJECTIVE)
    start = transfer_start(transfer, sequences=SEQUENCES)
    port = {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(DECODE_SIDE if decodes else SIDE)}
    variables = {**start.variables, **port, "POD_IP": "127.0.0.1", PROGRAMS_VARIABLE: programs_text(start.programs)}
    return {"command": start.command, "options": start.options, "env": variables}
