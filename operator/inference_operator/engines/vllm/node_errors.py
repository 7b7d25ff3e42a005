"""Known errors about the node: its GPUs, driver and disk, with their files in vLLM 0.32.0 and in other software."""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error

_OLDER_CUDA = (
    "Update the driver, or set `spec.engine.image` to the same version with `-cu129` at the end of its tag;"
    " on data-centre GPUs also `VLLM_ENABLE_CUDA_COMPATIBILITY=1` in `spec.engine.env` helps"
)
"""Since 0.20, vLLM's images have CUDA 13, and those whose tag ends in `-cu129` have CUDA 12.9 (vllm-project/vllm#42738).
The variable puts the image's compatibility libraries first, which GeForce and RTX cards do not support (vLLM 0.32.0,
vllm/env_override.py)."""

_HARDWARE = "Cordon the node, then reset or replace the GPU"

NODE_ERRORS: Sequence[KnownError] = (
    # CUDA runtime API, cudaErrorECCUncorrectable and cudaErrorNvlinkUncorrectable, as torch 2.13 prints them
    known_error(
        Reason.GPU_HARDWARE_ERROR,
        r"(?P<what>uncorrectable (?:ECC|NVLink) error)(?: encountered| detected)",
        f"a GPU reports an {{what}}. {_HARDWARE}",
    ),
    # NVML, NVML_ERROR_GPU_IS_LOST; NVIDIA Xid catalogue: 48, 63, 64, 92, 94, 95 memory, 74 NVLink, 79 bus
    known_error(
        Reason.GPU_HARDWARE_ERROR,
        r"(?P<what>GPU is lost|GPU has fallen off the bus|Xid \((?:PCI:)?[0-9A-Fa-f:.]{1,20}\): (?:48|63|64|74|79|92|94|95)\b)",
        f"a GPU of the node has failed ({{what}}). {_HARDWARE}",
    ),
    # NVIDIA container toolkit 1.17, nvidia-container-cli, of the image's variable NVIDIA_REQUIRE_CUDA
    known_error(
        Reason.DRIVER_TOO_OLD,
        r"unsatisfied condition: cuda ?>= ?(?P<need>[\d.]*\d)",
        f"the image needs a GPU driver that supports CUDA {{need}}, and the node's is older. {_OLDER_CUDA}"
        " (with `NVIDIA_DISABLE_REQUIRE=1`)",
    ),
    # torch 2.13, torch/csrc/cuda/Module.cpp; CUDA runtime API, cudaErrorInsufficientDriver
    known_error(
        Reason.DRIVER_TOO_OLD,
        r"(?:NVIDIA driver on your system is too old \(found version (?P<what>\d+)\)"
        r"|CUDA driver version is insufficient for CUDA runtime version"
        r"|the provided PTX was compiled with an unsupported toolchain)",
        f"the node's GPU driver is older than the engine's CUDA. {_OLDER_CUDA}",
    ),
    # vllm/config/device.py
    known_error(
        Reason.GPU_NOT_VISIBLE,
        r"(?:Failed to infer device type|No CUDA GPUs are available)",
        "vLLM sees no GPU: NVIDIA's container runtime is not in use."
        " Set `spec.scheduling.runtimeClassName: nvidia`, or make that runtime the default of the nodes",
    ),
    # NVIDIA container toolkit 1.17, nvidia-container-cli
    known_error(
        Reason.GPU_NOT_VISIBLE,
        r"nvidia-container-cli: initialization error: (?P<what>load library failed|nvml error|cuda error|driver(?: rpc)? error)",
        "NVIDIA's container runtime cannot use the node's driver ({what}). Install or repair the driver on the node",
    ),
    known_error(
        Reason.GPU_NOT_VISIBLE,
        r"nvidia-container-cli: initialization error",
        "NVIDIA's container runtime cannot use the node's driver. Install or repair the driver on the node",
    ),
    # CUDA runtime API, cudaErrorNoKernelImageForDevice
    known_error(
        Reason.GPU_NOT_SUPPORTED,
        r"no kernel image is available for execution on the device",
        "the image has no code for this kind of GPU."
        " Use another kind (`spec.hardware.gpu.products`), or an image that supports this one in `spec.engine.image`",
    ),
    # vllm/distributed/device_communicators/pynccl_wrapper.py, torch 2.13, torch/csrc/distributed/c10d/NCCLUtils.hpp
    known_error(
        Reason.COMMUNICATION_FAILED,
        r"(?:NCCL error(?: in)?: ?|ncclInternalError: |ncclSystemError: |ncclUnhandledCudaError: )[^\n]{0,120}?"
        r"(?P<what>unhandled (?:cuda|system) error|internal error|invalid (?:argument|usage)|remote process exited)",
        "the GPUs cannot communicate with each other ({what}). Set `NCCL_DEBUG=INFO` in `spec.engine.env` and read the log",
    ),
    known_error(
        Reason.COMMUNICATION_FAILED,
        r"(?:NCCL error|ncclInternalError|ncclSystemError|ncclUnhandledCudaError)",
        "the GPUs cannot communicate with each other. Set `NCCL_DEBUG=INFO` in `spec.engine.env` and read the log",
    ),
    # the C library's text of ENOSPC; /dev/shm is shared memory, see `errors.py`
    known_error(
        Reason.DISK_FULL,
        r"No space left on device(?! *: '/dev/shm)",
        "the node's disk is full."
        " Free space on it, use a larger disk, or put the engine's caches on a claim (`spec.podTemplate.volumes`)",
    ),
)
"""Errors of GPUs, drivers, the connections between GPUs, and the disk."""
