# noqa: INP001 (a module for scripts in the image, no module of this package)
"""Stand-ins for GPUs and what only their images have: modules, operators, streams, process groups.

Importing this makes vLLM believe that it runs on the GPU that `on_gpu` names. Nothing is computed: tensors are on the
meta device, and whoever calls a kernel gets an empty class.
"""

# vLLM and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found, misc"

import functools
import importlib
import importlib.abc
import importlib.machinery
import itertools
import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "CRITICAL", "VLLM_HAS_FLASHINFER_CUBIN": "1"}

import torch
import torch.fx.experimental._config
import vllm.platforms
from torch.overrides import TorchFunctionMode
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import DeviceCapability

ABSENT = (
    *("torchvision", "torchaudio", "timm", "cuda", "tilelang", "cutlass", "quack", "flashinfer", "deep_gemm"),
    *("vllm.third_party.deep_gemm", "vllm.third_party.flashmla.flash_mla_interface"),
    *("vllm._moe_C_stable_libtorch", "vllm._flashmla_C", "vllm._flashmla_extension_C"),
    *("vllm.vllm_flash_attn._vllm_fa2_C", "vllm.vllm_flash_attn._vllm_fa3_C", "vllm.vllm_flash_attn.cute"),
)
"""Modules for GPUs, sounds and images, which the image does not have. Nothing of them is called here."""
OPERATORS = ("_C", "_moe_C", "_vllm", "_flashmla", "_qutlass", "vllm")
"""How the names of the namespaces of vLLM's operators begin."""
FP8_SINCE, FP4_SINCE, FP4_BEFORE, GROUPED_FP8 = 89, 100, 130, (90, 100)
"""Compute capabilities with vLLM's kernels (0.32.0, `csrc/.../scaled_mm_entry.cu`, `nvfp4_scaled_mm_entry.cu`)."""
META, CUDA = "meta", "cuda"


class Anything(type):
    """A class that has every attribute: another such class."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (_Object,), {})

    def __contains__(cls, _: object) -> bool:
        return True  # else Python asks for item after item, without end

    def __getitem__(cls, _: object) -> type:
        return cls


class _Object:
    """What is made of an absent class: it has every method, and none does anything."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def __call__(self, *given: object, **_: object) -> object:
        """As a decorator, it changes nothing."""
        return given[0] if len(given) == 1 and callable(given[0]) else self


class _Absent(types.ModuleType):
    """A module of `ABSENT`: every name in it is an empty class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (_Object,), {})


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
    """What vLLM holds as its platform: the GPU of the case."""

    def __init__(self) -> None:
        self.current: Any = CpuPlatform()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.__dict__["current"], name)


PLATFORM = _Platform()
KERNELS = "vllm._C_stable_libtorch"
sys.modules[KERNELS] = types.ModuleType(KERNELS)
vllm.platforms._current_platform = PLATFORM  # noqa: SLF001 - no public way

import vllm._custom_ops  # noqa: E402 - it asks which operators there are, before all are there
import vllm.entrypoints.cli.serve  # noqa: E402 - transformers looks for what it can use, before all is there
import vllm.triton_utils  # noqa: E402 - as above
from vllm.distributed import parallel_state  # noqa: E402
from vllm.model_executor.models import registry, utils  # noqa: E402
from vllm.platforms.cuda import NonNvmlCudaPlatform  # noqa: E402
from vllm.v1.worker.workspace import init_workspace_manager  # noqa: E402

ALL_LAYERS = utils.make_layers


class Gpu(NonNvmlCudaPlatform):
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


def on_gpu(answers: dict[str, Any]) -> None:
    """Let vLLM run on this kind of GPU. What it keeps about another one is forgotten."""
    if Gpu.answers != answers:
        Gpu.answers = answers
        PLATFORM.current = Gpu()
        for name, module in list(sys.modules.items()):
            if name.startswith("vllm."):
                for value in list(vars(module).values()):
                    if isinstance(value, functools._lru_cache_wrapper):  # noqa: SLF001 - its only name
                        value.cache_clear()


class _OnMeta(TorchFunctionMode):
    """What would be made on a GPU is made on the meta device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        given = {**(kwargs or {})}
        if _is_gpu(given.get("device")) or isinstance(given.get("device"), int):
            given["device"] = META
        return func(*(META if _is_gpu(one) else one for one in args), **given)


def _is_gpu(value: object) -> bool:
    return isinstance(value, str | torch.device) and str(value).startswith(CUDA)


class _Ranks:
    """A torch process group without communication."""

    def __init__(self, count: int) -> None:
        self._count = count

    def size(self) -> int:
        return self._count

    def rank(self) -> int:
        return 0


class _Group(_Object):
    """A vLLM process group, as one of its ranks sees it."""

    def __init__(self, size: int, rank: int = 0) -> None:
        self.world_size, self.ranks = size, list(range(size))
        self.rank = self.rank_in_group = rank
        self.local_rank = self.first_rank = 0
        self.last_rank, self.is_first_rank, self.is_last_rank = size - 1, rank == 0, rank == size - 1
        self.device_group = self.cpu_group = _Ranks(size)
        self.device_communicator = self.mq_broadcaster = None
        self.use_device_communicator, self.unique_name, self.device = False, "group", torch.device(META)


@contextmanager
def ranks(parallel: Any) -> Iterator[None]:  # noqa: ANN401 - a type of vLLM
    """The process groups of vLLM for these sizes, without processes; new tensors are on the meta device.

    Of a pipeline it is the last stage, which has the layers of a draft too.
    """
    tensor, pipeline, data = (getattr(parallel, f"{one}_parallel_size") for one in ("tensor", "pipeline", "data"))
    sizes = {
        "_TP": tensor,
        "_ETP": tensor,
        "_PP": pipeline,
        "_DP": data,
        "_EP": tensor * data,
        "_EPLB": tensor * data,
        "_WORLD": tensor * pipeline * data,
        "_INNER_DP_WORLD": tensor * pipeline,
        "_DCP": parallel.decode_context_parallel_size,
        "_PCP": parallel.prefill_context_parallel_size,
    }
    for name, size in sizes.items():
        setattr(parallel_state, name, _Group(size, pipeline - 1 if name == "_PP" else 0))
    init_workspace_manager(torch.device(META))
    with torch.device(META), _OnMeta():
        yield


class Layers:
    """How many layers of a model are made: kinds of layers repeat within the first few."""

    most = 0

    @classmethod
    def make(cls, count: int, layer_fn: Callable[..., Any], prefix: str) -> Any:  # noqa: ANN401
        """As `make_layers` of vLLM, with stand-ins for the layers after the first `most` of the stage."""
        numbers = itertools.count()

        def made(prefix: str) -> Any:  # noqa: ANN401
            few = cls.most and next(numbers) >= cls.most
            return utils.PPMissingLayer() if few else layer_fn(prefix=prefix)

        return ALL_LAYERS(count, made, prefix)


class _Triton:
    """`triton.Config`, of which modules read fields when they are imported."""

    def __init__(self, kwargs: dict[str, Any] | None = None, num_warps: int = 4, num_stages: int = 1, **_: Any) -> None:  # noqa: ANN401
        self.kwargs, self.num_warps, self.num_stages = kwargs or {}, num_warps, num_stages


class _Properties:
    """What CUDA says about the GPU."""

    multi_processor_count, warp_size, name = 100, 32, "GPU"
    shared_memory_per_block_optin = 227 << 10

    def __init__(self, *_: object) -> None:
        self.major, self.minor = Gpu.answers["capability"]
        self.total_memory = Gpu.answers["memory_bytes"]


def _operators() -> None:
    """Every operator of vLLM exists; those that say what a GPU can do answer."""
    namespace = torch._ops._OpNamespace  # noqa: SLF001
    known = namespace.__getattr__

    def attribute(self: Any, name: str) -> Any:  # noqa: ANN401
        try:
            return known(self, name)
        except AttributeError:
            if name.startswith("__") or not self.name.startswith(OPERATORS):
                raise
            return Anything(name, (_Object,), {})

    namespace.__getattr__ = attribute
    answers: dict[str, Callable[[int], bool]] = {
        "cutlass_scaled_mm_supports_fp8": lambda capability: capability >= FP8_SINCE,
        "cutlass_scaled_mm_supports_block_fp8": lambda capability: capability >= FP8_SINCE,
        "cutlass_scaled_mm_supports_fp4": lambda capability: FP4_SINCE <= capability < FP4_BEFORE,
        "cutlass_group_gemm_supported": lambda capability: capability in GROUPED_FP8,
    }
    for name, answer in answers.items():
        setattr(torch.ops._C, name, answer)  # noqa: SLF001


def _install() -> None:
    """Put everything in place."""
    torch.fx.experimental._config.meta_nonzero_assume_all_nonzero = True  # noqa: SLF001
    sys.meta_path.insert(0, _Finder(ABSENT))
    _operators()
    vllm.triton_utils.triton.Config = _Triton
    for name in ("Stream", "Event"):
        setattr(torch.cuda, name, _Object)
    replaced: dict[str, Callable[..., object]] = {
        "current_stream": _Object,
        "current_device": lambda: 0,
        "_lazy_init": lambda: None,
        "get_device_properties": _Properties,
        "get_device_capability": lambda *_: tuple(Gpu.answers["capability"]),
    }
    for name, answer in replaced.items():
        setattr(torch.cuda, name, answer)
    torch.accelerator.current_device_index = lambda: 0
    on_gpu({"name": "H100", "memory_bytes": 80 << 30, "capability": (9, 0), "count": 8, "linked": True})
    utils.make_layers = Layers.make
    # vLLM starts a process for each class of a model, which takes longer.
    registry._run_in_subprocess = lambda look: look()  # noqa: SLF001
    from vllm.model_executor.layers.fused_moe.expert_map_manager import ExpertMapManager  # noqa: PLC0415
    from vllm.vllm_flash_attn import flash_attn_interface  # noqa: PLC0415 - only with its kernels

    ExpertMapManager.get_compressed_map_string = lambda *_: ""  # a line of the log, with numbers that are not there
    flash_attn_interface.FA4_AVAILABLE = True
    # It chose its functions when it was imported for another platform.
    importlib.reload(sys.modules["vllm.v1.attention.backends.fa_utils"])


_install()
