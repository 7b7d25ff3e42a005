"""Load tiny models with adapters or a draft model, and measure the memory that vLLM allocates for them.

Runs inside the engine image: run_adapter_memory.py FOLDER. FOLDER holds a tokenizer and `jobs.json`,
and gets `results.json`.
Each job runs in a separate process: this file with the job's number.
"""

# vLLM is in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = 600
STACKED = (
    "lora_a_stacked",
    "lora_b_stacked",
    "w13_lora_a_stacked",
    "w13_lora_b_stacked",
    "w2_lora_a_stacked",
    "w2_lora_b_stacked",
)
"""Names of a layer's tensors for adapters (vLLM 0.32.0, `lora/layers`)."""
IN_THIS_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def main() -> None:
    """Run every job, or the one with the given number."""
    folder = Path(sys.argv[1])
    jobs = json.loads((folder / "jobs.json").read_text())
    if len(sys.argv) > 2:  # noqa: PLR2004 - a number beside the folder
        number = int(sys.argv[2])
        (folder / f"{number}.json").write_text(json.dumps(measured(jobs[number], folder)))
        return
    for number in range(len(jobs)):
        command = [sys.executable, __file__, str(folder), str(number)]
        subprocess.run(command, check=True, timeout=SECONDS, env={**os.environ, **IN_THIS_PROCESS, "HOME": "/tmp"})  # noqa: S108 - in a container of its own
    results = [json.loads((folder / f"{number}.json").read_text()) for number in range(len(jobs))]
    (folder / "results.json").write_text(json.dumps(results))


def measured(job: dict[str, Any], folder: Path) -> dict[str, int]:
    """Bytes of the tensors for adapters, and blocks of the KV cache."""
    from vllm import LLM  # noqa: PLC0415 - reads its environment when it is imported

    options = job["options"]
    if "draft" in job:
        draft = {"method": "draft_model", "model": str(model(job["draft"], "draft", folder))}
        options["speculative_config"] = {**draft, "num_speculative_tokens": job["guessed"]}
    engine = LLM(model=str(model(job["config"], "model", folder)), load_format="dummy", enforce_eager=True, **options)
    inner = engine.llm_engine
    runner = inner.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
    return {
        "adapter_bytes": sum(dict(storages(runner.get_model())).values()),
        "blocks": inner.vllm_config.cache_config.num_gpu_blocks,
    }


def storages(whole: Any) -> Iterator[tuple[int, int]]:  # noqa: ANN401 - torch is not where this file is checked
    """Address and bytes of the storage of each tensor for adapters."""
    for module in whole.modules():
        for name in STACKED:
            value = getattr(module, name, ())
            for tensor in value if isinstance(value, tuple | list) else (value,):
                storage = tensor.untyped_storage()
                yield storage.data_ptr(), storage.nbytes()


def model(config: dict[str, Any], name: str, folder: Path) -> Path:
    """Make a model's folder with a config and a tokenizer, without weights."""
    place = Path("/tmp", name)  # noqa: S108 - in a container of its own
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    for file in folder.glob("tokenizer*.json"):
        shutil.copy(file, place)
    return place


if __name__ == "__main__":
    main()
