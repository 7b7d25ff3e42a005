"""The kinds of GPUs in `gpu-kinds.txt`: memory as CUDA reports it, bandwidth, compute capability.

Names are what NVIDIA's GPU feature discovery writes into `nvidia.com/gpu.product`, matched by their characteristic
part, because older releases omit `NVIDIA-` and suffixes depend on the driver.

Sources: usable memory is `torch.cuda.get_device_properties().total_memory` as vLLM logs it ("total_gpu_memory",
"requested GPU memory") in the start-ups of `bench/data/startups.csv` and in vllm-project/vllm#14011, #21429 and
recipes; without a log, 98.5 % of the driver's memory, the least that a measured kind has (`estimated`).
Bandwidth, tensor operations, links and compute capability: NVIDIA's data sheets and architecture white papers (halved
where a sheet counts sparse matrices), and the CUDA GPU list. A PCIe bus counts with its 16 lanes (8 for RTX 4060 and
A2): 16 GB/s for generation 3, 32 for generation 4, 64 for generation 5.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from inference_operator.text_tables import rows

GIB_OF_MIB = 1024
LOST_TO_CUDA = 0.985
"""The least fraction of the driver's memory that CUDA reports (except the T4: 14.56 of 15.0 GiB, see the table)."""


@dataclass(frozen=True, slots=True)
class GpuKind:
    name: str
    """The common name; an argument of `infd fit --gpu`."""
    product: str
    """A regular expression for its product label."""
    memory_gib: float
    """Total memory as CUDA reports it."""
    bandwidth_gb_per_s: float
    tflops: float
    """Dense 16-bit tensor operations per second, in 10^12, with sums in 32 bits."""
    link_gb_per_s: float
    """Bandwidth of one direction to the other GPUs of its node: over NVLink, or over the PCIe bus."""
    capability: tuple[int, int]
    """CUDA's compute capability: bfloat16 from 8.0, FP8 from 8.9."""
    linked: bool = False
    """GPUs of a node reach each other over NVLink; engines then reserve more memory for collective operations."""
    estimated: bool = False
    aliases: tuple[str, ...] = ()
    """Other names, in the letters and digits to which names are reduced."""


def _kind(name: str, product: str, *words: str) -> GpuKind:
    memory, bandwidth, tflops, link = map(float, words[:4])
    major, minor = map(int, words[4].split("."))
    return GpuKind(
        name,
        product,
        memory,
        bandwidth,
        tflops,
        link,
        (major, minor),
        linked="linked" in words,
        estimated="estimated" in words,
        aliases=tuple(word.removeprefix("alias=") for word in words if word.startswith("alias=")),
    )


_, *_ROWS = rows(__package__, "gpu-kinds.txt")
GPU_KINDS = tuple(_kind(*row) for row in _ROWS)


def kind_of_product(product: str) -> GpuKind | None:
    """The kind of a product label, ignoring the suffixes of sharing and MIG; None if the table has none."""
    plain = re.sub(r"-(SHARED|MIG-.*)$", "", product)
    return next((kind for kind in GPU_KINDS if re.search(kind.product, plain)), None)


@lru_cache(maxsize=256)
def kind_named(name: str) -> GpuKind | None:
    letters = _letters(name)
    exact = next((kind for kind in GPU_KINDS if _letters(kind.name) == letters), None)
    alias = next((kind for kind in GPU_KINDS if letters in kind.aliases), None)
    return exact or alias or kind_of_product(name.replace(" ", "-")) or kind_of_product(f"NVIDIA-{name}")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("nvidia"))
