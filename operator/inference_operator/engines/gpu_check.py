"""Compares the GPUs of the container with those that the engine was sized for; then it becomes the engine.

Arguments: gpus=COUNT kind=NAME name=PATTERN memory=GIB capability=VERSION -- COMMAND...

A GPU is right if its name matches and its memory is about that of the plan, or if memory and compute capability are
equal. Under MPS, name and capability decide, because CUDA may report the limit of this client as the memory. If a GPU
is wrong, the program ends before the engine loads anything. If CUDA tells nothing, the engine starts.
"""

import ctypes
import os
import re
import signal
import sys
from typing import NamedTuple

GIB = 2**30
SAME_KIND, SAME_GPU = 0.08, 0.02
"""Differences of memory: within a kind (error correction, driver), and between GPUs that are equal for an engine."""
MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR (CUDA driver API 13, `cuda.h`)."""
MPS = "CUDA_MPS_PIPE_DIRECTORY"
"""Variable of containers that share a GPU through MPS (NVIDIA/k8s-device-plugin 0.18, `internal/plugin/mps.go`)."""


class VisibleGpu(NamedTuple):
    """A GPU as the CUDA driver reports it."""

    name: str
    gib: float
    capability: str

    def __str__(self) -> str:
        return f"{self.name} ({self.gib:.1f} GiB, compute capability {self.capability})"


def gpus() -> list[VisibleGpu]:
    """The GPUs that are visible to CUDA; raises OSError if the driver cannot be asked."""
    cuda = ctypes.CDLL("libcuda.so.1")
    number, size, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)

    def ask(function: str, *arguments: object) -> int:
        if code := getattr(cuda, function)(*arguments):
            raise OSError(f"{function} returned error {code}")
        return number.value

    ask("cuInit", 0)
    found = []
    for index in range(ask("cuDeviceGetCount", ctypes.byref(number))):
        device = ask("cuDeviceGet", ctypes.byref(number), index)
        ask("cuDeviceGetName", name, len(name), device)
        ask("cuDeviceTotalMem_v2", ctypes.byref(size), device)
        major, minor = (ask("cuDeviceGetAttribute", ctypes.byref(number), part, device) for part in (MAJOR, MINOR))
        found.append(VisibleGpu(name.value.decode(errors="replace"), size.value / GIB, f"{major}.{minor}"))
    return found


def is_right(gpu: VisibleGpu, plan: dict[str, str]) -> bool:
    """Whether an engine of this plan may use the GPU. A capability of 0.0 is unknown."""
    difference = abs(gpu.gib / float(plan["memory"]) - 1)
    named = re.search(plan["name"], gpu.name.replace(" ", "-")) is not None
    equal = plan["capability"] in ("0.0", gpu.capability)
    return equal and (named if MPS in os.environ else difference <= (SAME_KIND if named else SAME_GPU))


def problem(found: list[VisibleGpu], plan: dict[str, str]) -> str:
    """What is wrong with these GPUs; empty if nothing is."""
    needed = int(plan["gpus"])
    if len(found) >= needed and all(is_right(gpu, plan) for gpu in found[:needed]):
        return ""
    wanted = f"{needed} x {plan['kind']} ({plan['memory']} GiB, compute capability {plan['capability']})"
    has = ", ".join(str(gpu) for gpu in found[:needed])
    return f"wrong GPU: the engine was sized for {wanted}; this node gives it {len(found)}: {has or 'none'}"


def main() -> None:
    """Check, and become the command."""
    end = sys.argv.index("--")
    plan, command = dict(word.split("=", 1) for word in sys.argv[1:end]), sys.argv[end + 1 :]
    try:
        wrong = problem(gpus(), plan)
    except (OSError, AttributeError) as error:
        sys.stderr.write(f"The GPUs were not checked: {error}\n")
        wrong = ""
    if wrong:
        sys.exit(wrong)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a new program inherits that
        signal.signal(ignored, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - the command of the engine


if __name__ == "__main__":
    main()
