"""Answer prompts with each configuration of speculative decoding, and with none.

Runs inside the engine image: run_speculation.py FOLDER. FOLDER holds `model` and `jobs.json`, and gets `results.json`.
"""

# vLLM and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 600
NOISE = 0.01
"""Standard deviation of what is added to the weights of the draft, so that it guesses right often, and not always."""
IN_THIS_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
COUNTERS = {
    "vllm:spec_decode_num_draft_tokens": "guessed",
    "vllm:spec_decode_num_accepted_tokens": "accepted",
    "vllm:spec_decode_num_drafts": "steps",
}


def main() -> None:
    """Run every configuration in a process of its own, or the one with the given number."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "jobs.json").read_text())
    if len(sys.argv) > 2:  # noqa: PLR2004 - a number beside the folder
        found = answers(folder / "model", job["prompts"], job["tokens"], job["configs"][int(sys.argv[2])])
        (folder / f"{sys.argv[2]}.json").write_text(json.dumps(found))
        return
    make_draft(folder / "model", folder / "draft")
    numbers = [str(number) for number in range(len(job["configs"]))]
    for number in numbers:
        command = [sys.executable, __file__, str(folder), number]
        subprocess.run(command, check=True, timeout=SECONDS, env={**os.environ, **IN_THIS_PROCESS, "HOME": "/tmp"})  # noqa: S108 - in a container of its own
    results = [json.loads((folder / f"{number}.json").read_text()) for number in numbers]
    (folder / "results.json").write_text(json.dumps(results))


def make_draft(model: Path, draft: Path) -> None:
    """Make a model that is almost the other one."""
    import torch  # noqa: PLC0415 - reads its environment when it is imported
    from safetensors.torch import load_file, save_file  # noqa: PLC0415

    shutil.copytree(model, draft)
    torch.manual_seed(1)
    weights = load_file(draft / "model.safetensors")
    noisy = {name: value + NOISE * torch.randn_like(value) for name, value in weights.items()}
    save_file(noisy, draft / "model.safetensors", metadata={"format": "pt"})


def answers(model: Path, prompts: list[str], tokens: int, config: dict[str, Any] | None) -> dict[str, Any]:
    """The texts of greedy answers, and how many tokens were guessed and accepted."""
    from vllm import LLM, SamplingParams  # noqa: PLC0415 - reads its environment when it is imported

    engine = LLM(
        model=str(model),
        dtype="float32",
        max_model_len=512,
        max_num_seqs=8,
        kv_cache_memory_bytes=64 * 2**20,
        enforce_eager=True,
        disable_log_stats=False,
        speculative_config=config,
    )
    done = engine.generate(prompts, SamplingParams(temperature=0, max_tokens=tokens), use_tqdm=False)
    counts = {COUNTERS[one.name]: one.value for one in engine.get_metrics() if one.name in COUNTERS}
    return {"texts": [one.outputs[0].text for one in done], **counts}


if __name__ == "__main__":
    main()
