# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: derives vLLM's own configuration from argument lists, on GPUs that are not there.

python derive.py CASES.json RESULTS.json

vLLM's argument and configuration classes decide as they do on the named GPU. Only the hardware is a stand-in: it
answers questions about name, memory, compute capability and number of the GPUs. Classes of models are imported on the
image's own platform, since the kernels for GPUs are not in the image.
"""

# vLLM and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found, misc"

import contextlib
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "CRITICAL"}

import torch
import vllm.platforms
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import DeviceCapability

T = TypeVar("T")
KERNELS = "vllm._C_stable_libtorch"
ABSENT = ("torchvision", "vllm.vllm_flash_attn")
"""Modules for GPUs and images, which the image does not have. Nothing of them is called here."""
PARALLEL = (
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local"),
    *("data_parallel_rank", "data_parallel_master_ip", "data_parallel_hybrid_lb", "data_parallel_external_lb"),
    *("enable_expert_parallel", "distributed_executor_backend", "nnodes", "node_rank", "master_addr", "master_port"),
    *("node_rank_within_dp", "local_world_size"),
)
"""What vLLM derives about the ranks of one pod."""
MOST_MAJOR = 12
"""Largest major compute capability of a GPU that the operator knows."""
FP8_SINCE = 89
"""Compute capability from which vLLM's kernels multiply in FP8 (0.32.0, `csrc/.../scaled_mm_entry.cu`)."""


class _Anything(type):
    """A class that has every attribute: another such class."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _Absent(types.ModuleType):
    """A module of `ABSENT`: every name in it is an empty class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules that are absent."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:  # noqa: ANN401
        if any(fullname == name or fullname.startswith(f"{name}.") for name in self._names):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


class _Platform:
    """What vLLM holds as its platform: the GPU of the case, or the CPU while classes of models are imported."""

    def __init__(self) -> None:
        self.current: Any = CpuPlatform()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.__dict__["current"], name)


PLATFORM = _Platform()
sys.modules[KERNELS] = types.ModuleType(KERNELS)
vllm.platforms._current_platform = PLATFORM  # noqa: SLF001 - no public way

from vllm.config.model import _FLOAT16_NOT_SUPPORTED_MODELS as WITHOUT_FLOAT16  # noqa: E402 - the platform before
from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402 - as above
from vllm.entrypoints.cli.serve import ServeSubcommand  # noqa: E402
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS, get_quantization_config  # noqa: E402
from vllm.model_executor.models import registry  # noqa: E402
from vllm.platforms.cuda import NonNvmlCudaPlatform, _get_backend_priorities  # noqa: E402
from vllm.reasoning import ReasoningParserManager  # noqa: E402
from vllm.tool_parsers import ToolParserManager  # noqa: E402
from vllm.usage.usage_lib import UsageContext  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402


class _Gpu(NonNvmlCudaPlatform):
    """vLLM's CUDA platform with the answers of one kind of GPU."""

    answers: dict[str, Any] = {}  # noqa: RUF012 - set for each case

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:  # noqa: ARG003
        return DeviceCapability(*cls.answers["capability"])

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:  # noqa: ARG003
        return str(cls.answers["name"])

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:  # noqa: ARG003
        return int(cls.answers["memory_bytes"])

    @classmethod
    def device_count(cls) -> int:
        return int(cls.answers["count"])

    @classmethod
    def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:  # noqa: ARG003
        return bool(cls.answers["linked"])

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:  # noqa: ARG003
        return 100

    @classmethod
    def get_cuda_runtime_major(cls) -> int:
        return 13


def _imported_on_cpu(inspect: Callable[[], T]) -> T:
    """Inspect the class of a model in this process. vLLM starts another one for each, which takes longer."""
    gpu, PLATFORM.current = PLATFORM.current, CpuPlatform()
    try:
        return inspect()
    finally:
        PLATFORM.current = gpu


def derived(arguments: list[str], parser: Any) -> dict[str, Any]:  # noqa: ANN401
    """What vLLM's configuration says after its own checks, as far as sizing depends on it."""
    found = parser.parse_args(["serve", *arguments])
    found.model = found.model_tag
    config = AsyncEngineArgs.from_cli_args(found).create_engine_config(
        usage_context=UsageContext.OPENAI_API_SERVER, headless=found.headless
    )
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


def _case(case: dict[str, Any], folder: Path, parser: Any) -> dict[str, Any]:  # noqa: ANN401
    for name, content in case["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    _Gpu.answers = case["gpu"]
    PLATFORM.current = _Gpu()
    # A parser of reasoning is made with the model's tokenizer, which the folder does not have.
    arguments = [one for one in case["arguments"][1:] if not one.startswith("--reasoning-parser=")]
    try:
        return derived([str(folder), *arguments], parser)
    except Exception as error:  # noqa: BLE001 - vLLM's refusal is the result of this case
        return {"error": f"{type(error).__name__}: {error}"[:2000]}


def methods() -> dict[str, dict[str, Any]]:
    """Least compute capability and data types of activations of each quantization method."""
    found = {}
    for name in sorted(QUANTIZATION_METHODS):
        config = get_quantization_config(name)
        # An instance method in one class, and a class method in the others.
        listed = inspect.unwrap(getattr(config, "get_supported_act_dtypes"))  # noqa: B009
        types = sorted(
            str(one).removeprefix("torch.") for one in (listed() if inspect.ismethod(listed) else listed(config))
        )
        found[name] = {"capability": config.get_min_capability(), "types": types}
    return found


def sparse_mla() -> list[int]:
    """Major compute capabilities for which one of vLLM's backends of sparse latent attention has kernels.

    As in vLLM, a backend that cannot be imported is none. Those with kernels in FlashMLA and FlashInfer can be.
    """
    PLATFORM.current = CpuPlatform()
    found = set()
    for major in range(MOST_MAJOR + 1):
        capability = DeviceCapability(major, 0)
        named = _get_backend_priorities(use_mla=True, device_capability=capability)
        for backend in (one for one in named if "SPARSE" in one.name):
            with contextlib.suppress(ImportError):
                made = backend.get_class()
                if made.is_sparse() and made.supports_compute_capability(capability):
                    found.add(major)
    return sorted(found)


def whole_encoders() -> list[str]:
    """Architectures whose encoder of images each tensor rank can have as a whole (`--mm-encoder-tp-mode=data`).

    Those whose classes need the kernels of GPUs to be imported are left out.
    """
    PLATFORM.current = CpuPlatform()
    found = []
    for name in sorted(registry._MULTIMODAL_MODELS):  # noqa: SLF001
        with contextlib.suppress(ImportError):
            if getattr(registry.ModelRegistry.models[name].load_model_cls(), "supports_encoder_tp_data", False):
                found.append(name)
    return found


def main() -> None:
    """Derive every case."""
    sys.meta_path.insert(0, _Finder(ABSENT))  # after transformers has looked for what it can use
    registry._run_in_subprocess = _imported_on_cpu  # noqa: SLF001
    for name in ("cutlass_scaled_mm_supports_fp8", "cutlass_scaled_mm_supports_block_fp8"):
        setattr(torch.ops._C, name, lambda capability: capability >= FP8_SINCE)  # noqa: SLF001
    parser = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(parser.add_subparsers(dest="subparser"))
    cases = json.loads(Path(sys.argv[1]).read_text())
    with tempfile.TemporaryDirectory() as root:
        results = [_case(case, Path(root) / case["model"], parser) for case in cases]
    parsers = {
        "tool": sorted(ToolParserManager.list_registered()),
        "reasoning": sorted(ReasoningParserManager.list_registered()),
    }
    answer = {
        "derived": results,
        "parsers": parsers,
        "methods": methods(),
        "no_float16": sorted(WITHOUT_FLOAT16),
        "sparse_mla": sparse_mla(),
        "whole_encoders": whole_encoders(),
    }
    Path(sys.argv[2]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
