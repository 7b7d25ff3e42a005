# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: derives vLLM's own configuration from argument lists, on GPUs that are not there.

python derive.py CASES.json RESULTS.json

vLLM's argument and configuration classes decide as they do on the named GPU, and a case that asks for it goes on with
the start. Only the hardware is a stand-in (`stand_ins.py`).
"""

# vLLM and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found, misc"

import gc
import json
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stand_ins
from start import started
from tables import attention, methods, online, sparse_mla, traits
from vllm.config.model import _FLOAT16_NOT_SUPPORTED_MODELS as WITHOUT_FLOAT16
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser

PARALLEL = (
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local"),
    *("data_parallel_rank", "data_parallel_master_ip", "data_parallel_hybrid_lb", "data_parallel_external_lb"),
    *("enable_expert_parallel", "distributed_executor_backend", "nnodes", "node_rank", "master_addr", "master_port"),
    *("node_rank_within_dp", "local_world_size"),
)
"""What vLLM derives about the ranks of one pod."""
COLLECTED_CASES = 40
"""Cases after which garbage is collected."""
PARSER = FlexibleArgumentParser()


def configured(arguments: list[str]) -> Any:  # noqa: ANN401
    """The configuration of vLLM from arguments, after its own checks."""
    found = PARSER.parse_args(["serve", *arguments])
    found.model = found.model_tag
    return AsyncEngineArgs.from_cli_args(found).create_engine_config(
        usage_context=UsageContext.OPENAI_API_SERVER, headless=found.headless
    )


def derived(config: Any) -> dict[str, Any]:  # noqa: ANN401
    """What the configuration says, as far as sizing depends on it."""
    model, scheduler, parallel = config.model_config, config.scheduler_config, config.parallel_config
    return {
        "max_model_len": model.max_model_len,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "chunked_prefill": scheduler.enable_chunked_prefill,
        "prefix_caching": config.cache_config.enable_prefix_caching,
        "element_bytes": model.dtype.itemsize,
        "quantization": model.quantization,
        "runner": model.runner_type,
        "parallel": {name: getattr(parallel, name) for name in PARALLEL},
        "encoder_mode": model.multimodal_config.mm_encoder_tp_mode if model.multimodal_config else None,
        "in_blocks": _in_blocks(config.quant_config),
        "video_limit": model.multimodal_config.get_limit_per_prompt("video") if model.multimodal_config else None,
    }


def _in_blocks(quantization: Any) -> bool:  # noqa: ANN401
    """Whether weights share a scale in blocks: as DeepSeek's checkpoints say so, and as those of llm-compressor do."""
    blocked = getattr(quantization, "has_blocked_weights", bool)()
    return bool(blocked or getattr(quantization, "weight_block_size", None))


def _written(files: dict[str, Any], folder: Path) -> str:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return str(folder)


def _case(case: dict[str, Any], root: Path) -> dict[str, Any]:
    folder = _written(case["files"], root / case["model"])
    drafts = {name: _written(files, root / name) for name, files in case.get("drafts", {}).items()}
    stand_ins.on_gpu(case["gpu"])
    # A parser of reasoning is made with the model's tokenizer, which the folder does not have.
    arguments = [one for one in case["arguments"][1:] if not one.startswith("--reasoning-parser=")]
    for name, written in drafts.items():
        arguments = [one.replace(f'"model":"{name}"', f'"model":"{written}"') for one in arguments]
    try:
        config = configured([folder, *arguments])
        found = derived(config)
        return {**found, **started(config, case.get("cache_bytes"))} if case.get("start") else found
    except (Exception, SystemExit) as error:  # noqa: BLE001 - vLLM's refusal is the result of this case
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.name}"
        return {"error": f"{type(error).__name__} in {where}: {error}"[:2000]}


def _results(cases: list[dict[str, Any]], folder: Path) -> Iterator[dict[str, Any]]:
    """The result of each case. What vLLM keeps of a model is not looked at again when garbage is collected."""
    gc.disable()
    for number, case in enumerate(cases):
        if number % COLLECTED_CASES == 0:
            gc.collect()
            gc.freeze()
        yield _case(case, folder)
    gc.enable()


def tables(folder: Path) -> dict[str, Any]:
    """What the operator's tables of this version are made from."""
    return {
        "parsers": {
            "tool": sorted(ToolParserManager.list_registered()),
            "reasoning": sorted(ReasoningParserManager.list_registered()),
        },
        "methods": methods(),
        "no_float16": sorted(WITHOUT_FLOAT16),
        "sparse_mla": sparse_mla(),
        "online": online(configured, folder),
        "attention": attention(configured, folder),
        "traits": traits(),
    }


def main() -> None:
    """Derive every case."""
    ServeSubcommand().subparser_init(PARSER.add_subparsers(dest="subparser"))
    question = json.loads(Path(sys.argv[1]).read_text())
    with tempfile.TemporaryDirectory() as root:
        results = list(_results(question["cases"], Path(root)))
        found = tables(Path(root)) if question["tables"] else {}
    Path(sys.argv[2]).write_text(json.dumps({"derived": results, **found}))


if __name__ == "__main__":
    main()
