"""The parts of a GPU's promised speed that engines reach, measured by kernel class, arithmetic and kind of GPU.

- The tensor cores' share is measured: `measured_shares.json` has one for each class of kernels and arithmetic, and for
  each kind of GPU in it. A share of few measurements is drawn to that of its class (`python -m bench.throughput_model`
  computes them from `bench/data/throughput.csv`, and tells the error with each source held out).
- A kind of GPU without a measurement in its class has the class's share, and counts as `estimated`.
- The other constants are the same for all models. They were fitted to all of those measurements together.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.sizing.shape import Shape
from inference_operator.text_tables import text_of

MEMORY_SHARE = 0.8
"""Part of the memory's bandwidth that reading dense weights and the KV cache reaches."""
EXPERTS_MEMORY_SHARE = 0.4
"""The same for routed experts: each is a small matrix, and some get more tokens than others."""
ATTENTION_SHARE = 0.4
"""Part of the 16-bit tensor operations that attention over a prompt reaches. Assumed: FlashAttention-2 reports up to
73 % on A100, FlashAttention-3 75 % on H100 for long sequences (arXiv:2307.08691, arXiv:2407.08608), and prompts are
short."""
HEAD_SHARE = 0.5
"""The same for the logits of each sequence. Assumed: one large dense matrix."""
LINK_SHARE = 0.56
"""Part of the bandwidth of NVLink that collective operations reach."""
UNLINKED_SHARE = 0.4
"""The same for a PCIe bus, which the GPUs of a node share. Assumed: no measurement here has one."""
EXCHANGE_SECONDS = 17e-6
"""Latency of a collective operation over NVLink."""
UNLINKED_EXCHANGE_SECONDS = 40e-6
"""The same over a PCIe bus. Assumed, as above."""
NETWORK_GB_PER_S = 6.25
"""Bandwidth of one direction between nodes for each GPU: 400 Gbit/s for eight, the least of nodes that clouds offer for
groups (AWS, "Amazon EC2 P4 Instances": p4d.24xlarge). Others have 200 or 400 Gbit/s for each GPU (Azure, "ND A100 v4
series", "ND H100 v5 series"), but no label says so."""
NETWORK_SHARE = UNLINKED_SHARE
"""Part of it that exchanges reach. Assumed: as of a PCIe bus."""
NETWORK_SECONDS = 40e-6
"""Latency of an exchange between nodes. Assumed: as over a PCIe bus, since data also leave the GPU over one."""


class KernelClass(StrEnum):
    DENSE = "dense"
    EXPERTS = "experts"
    LATENT_EXPERTS = "experts with latent attention"


class Arithmetic(StrEnum):
    SIXTEEN_BIT = "16 bits"
    PACKED = "16 bits, from packed weights"
    EIGHT_BIT = "8 bits"
    FOUR_BIT = "4 bits"


SPEEDUP: Mapping[Arithmetic, int] = {
    Arithmetic.SIXTEEN_BIT: 1,
    Arithmetic.PACKED: 1,
    Arithmetic.EIGHT_BIT: 2,
    Arithmetic.FOUR_BIT: 4,
}
"""Operations for each of the 16-bit ones (NVIDIA's data sheets of H100 and B200, dense)."""
EIGHT_BIT_SINCE, FOUR_BIT_SINCE, INT8_SINCE = (8, 9), (10, 0), (7, 5)
"""Compute capabilities with FP8, FP4 and INT8 tensor cores; INT8 ends with Blackwell (CUDA C++ programming guide)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One class of kernels with one arithmetic on one kind of GPU."""

    kernels: KernelClass
    arithmetic: Arithmetic
    gpu: str
    """The kind's name, without the profile of a slice."""


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the tensor operations that an engine reaches."""

    value: float
    measurements: int
    """Of this cell; 0: it is the share of the class."""


def cell(facts: ModelFacts, shape: Shape, *, gpu: str, capability: tuple[int, int]) -> Cell:
    kernels = KernelClass.DENSE
    if facts.experts is not None:
        kernels = KernelClass.LATENT_EXPERTS if facts.uses_mla else KernelClass.EXPERTS
    return Cell(kernels, _arithmetic(facts, shape, capability), gpu.partition(" ")[0])


def _arithmetic(facts: ModelFacts, shape: Shape, capability: tuple[int, int]) -> Arithmetic:
    own = facts.quantization.kernel
    kernel = own if own is not Kernel.NONE or shape.quantization is None else shape.quantization.kernel
    match kernel:
        case Kernel.NONE:
            return Arithmetic.SIXTEEN_BIT
        case Kernel.FP8 | Kernel.FP8_BLOCK if capability >= EIGHT_BIT_SINCE:
            return Arithmetic.EIGHT_BIT
        case Kernel.INT8 if INT8_SINCE <= capability < FOUR_BIT_SINCE:
            return Arithmetic.EIGHT_BIT
        case Kernel.NVFP4 | Kernel.MXFP4 if capability >= FOUR_BIT_SINCE:
            return Arithmetic.FOUR_BIT
        case _:
            return Arithmetic.PACKED


def measured_share(cell: Cell) -> Share:
    """The share of a cell; of its class where the cell has no measurement, and of all where the class has none."""
    shares = _shares()
    fallback = Share(shares[_OF_ALL].value, 0)
    share = shares.get((cell.kernels, cell.arithmetic, cell.gpu))
    return share or shares.get((cell.kernels, cell.arithmetic, ""), fallback)


_OF_ALL = ("", "", "")


@cache
def _shares() -> Mapping[tuple[str, str, str], Share]:
    """Shares by class, arithmetic and kind; an empty kind is the whole class, and an empty class is all of them."""
    rows = json.loads(text_of(__package__, "measured_shares.json"))
    return {
        (row["kernels"], row["arithmetic"], row["gpu"]): Share(row["share"], row["measurements"] if row["gpu"] else 0)
        for row in rows
    }
