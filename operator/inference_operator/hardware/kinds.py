"""Table of GPU kinds: memory as CUDA reports it, bandwidth, compute capability.

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


GPU_KINDS: tuple[GpuKind, ...] = (
    GpuKind("T4", r"Tesla-T4|NVIDIA-T4", 14.56, 320, 65, 16, (7, 5)),
    GpuKind("V100-16GB", r"V100.*16GB", 15.77, 900, 125, 150, (7, 0), linked=True),
    GpuKind("V100-32GB", r"V100.*32GB", 31.74, 900, 125, 150, (7, 0), linked=True),
    GpuKind("A2", r"NVIDIA-A2$", 14.6, 200, 18, 16, (8, 6), estimated=True),
    GpuKind("A10", r"NVIDIA-A10$", 22.06, 600, 125, 32, (8, 6)),
    GpuKind("A10G", r"NVIDIA-A10G$", 22.06, 600, 70, 32, (8, 6)),
    GpuKind("A16", r"NVIDIA-A16$", 14.6, 200, 18, 16, (8, 6), estimated=True),
    GpuKind("A30", r"NVIDIA-A30$", 23.5, 933, 165, 32, (8, 0), estimated=True),
    GpuKind("A40", r"NVIDIA-A40$", 44.34, 696, 150, 32, (8, 6), estimated=True),
    GpuKind("A100-40GB", r"A100.*40GB", 39.38, 1555, 312, 300, (8, 0), linked=True),
    GpuKind("A100-80GB", r"A100.*80GB", 79.15, 2039, 312, 300, (8, 0), linked=True),
    GpuKind("RTX-A5000", r"RTX-A5000", 23.5, 768, 111, 32, (8, 6), estimated=True),
    GpuKind("RTX-A6000", r"RTX-A6000", 47.54, 768, 155, 32, (8, 6)),
    GpuKind("RTX-3090", r"GeForce-RTX-3090", 23.56, 936, 71, 32, (8, 6)),
    GpuKind("RTX-4060", r"GeForce-RTX-4060$", 7.6, 272, 30, 16, (8, 9), estimated=True),
    GpuKind("RTX-4090", r"GeForce-RTX-4090", 23.5, 1008, 165, 32, (8, 9)),
    GpuKind("RTX-5090", r"GeForce-RTX-5090", 31.4, 1792, 210, 64, (12, 0)),
    GpuKind("L4", r"NVIDIA-L4$", 22.05, 300, 121, 32, (8, 9), estimated=True),
    GpuKind("L20", r"NVIDIA-L20$", 44.5, 864, 120, 32, (8, 9), estimated=True),
    GpuKind("L40", r"NVIDIA-L40$", 44.4, 864, 181, 32, (8, 9), estimated=True),
    GpuKind("L40S", r"NVIDIA-L40S$", 44.4, 864, 362, 32, (8, 9), estimated=True),
    GpuKind("RTX-6000-Ada", r"RTX-6000-Ada", 47.5, 960, 364, 32, (8, 9), estimated=True),
    GpuKind("H20", r"NVIDIA-H20(?!0)", 95.1, 4000, 148, 450, (9, 0), linked=True, estimated=True),
    GpuKind("H100-PCIe", r"H100-PCIe", 79.18, 2039, 756, 64, (9, 0)),
    GpuKind("H100-NVL", r"H100-NVL", 93.1, 3938, 835, 300, (9, 0), linked=True, estimated=True),
    GpuKind("H100-80GB", r"H100-80GB", 79.18, 3352, 989, 450, (9, 0), linked=True),
    GpuKind("H800", r"H800", 79.18, 3352, 989, 200, (9, 0), linked=True, estimated=True),
    GpuKind("GH200", r"GH200", 94.5, 4000, 989, 450, (9, 0), linked=True),
    GpuKind("H200", r"NVIDIA-H200", 139.7, 4800, 989, 450, (9, 0), linked=True),
    GpuKind("B200", r"NVIDIA-B200", 178.36, 8000, 2250, 900, (10, 0), linked=True),
    GpuKind("GB200", r"GB200", 184.0, 8000, 2500, 900, (10, 0), linked=True, estimated=True),
    GpuKind("B300", r"B300", 267.0, 8000, 2250, 900, (10, 3), linked=True, estimated=True),
    GpuKind("RTX-PRO-6000", r"RTX-PRO-6000-Blackwell", 94.9, 1597, 500, 64, (12, 0), estimated=True),
)


def kind_of_product(product: str) -> GpuKind | None:
    """The kind of a product label, ignoring the suffixes of sharing and MIG; None if the table has none."""
    plain = re.sub(r"-(SHARED|MIG-.*)$", "", product)
    return next((kind for kind in GPU_KINDS if re.search(kind.product, plain)), None)


@lru_cache(maxsize=256)
def kind_named(name: str) -> GpuKind | None:
    letters = _letters(name)
    exact = next((kind for kind in GPU_KINDS if _letters(kind.name) == letters), None)
    alias = next((kind for kind in GPU_KINDS if kind.name == _ALIASES.get(letters)), None)
    return exact or alias or kind_of_product(name.replace(" ", "-")) or kind_of_product(f"NVIDIA-{name}")


_ALIASES = {
    **dict.fromkeys(("h100", "h100sxm"), "H100-80GB"),
    **dict.fromkeys(("a100", "a10080"), "A100-80GB"),
    "a10040": "A100-40GB",
    "v100": "V100-32GB",
    "a6000": "RTX-A6000",
    "3090": "RTX-3090",
    "5090": "RTX-5090",
    **dict.fromkeys(("4090", "4090d", "rtx4090d"), "RTX-4090"),
}


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("nvidia"))
