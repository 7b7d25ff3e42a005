"""The schemes of a checkpoint of llm-compressor (`quant_method: compressed-tensors`): one for each of its groups.

A group names layers, and how their weights are stored; its `format` comes before that of the checkpoint (vLLM 0.32.0,
`layers/quantization/compressed_tensors/compressed_tensors.py`, `_get_scheme_from_parts`). Which layers a group names is
not read: the lists can be long, and sizes follow from the files.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.models.config import Config
from inference_operator.models.facts import Kernel

METHOD = "compressed-tensors"
BLOCK = 128
"""Side of a block of FP8 weights with one scale, where a checkpoint states none: that of DeepSeek's."""
LARGEST_BLOCK, MOST_DIGITS = 2**20, 7
"""Largest group or side of a block that is believed, and its digits."""
WHOLE_CHANNEL = -1
"""Size of a group with one scale for each output, which restricts no parallel size (compressed-tensors 0.17,
`quantization/quant_args.py`)."""
EIGHT = 8
MXFP4_GROUP = 32
_FORMATS = {
    "nvfp4-pack-quantized": Kernel.NVFP4,
    "mxfp4-pack-quantized": Kernel.MXFP4,
    "float-quantized": Kernel.FP8,
    "int-quantized": Kernel.INT8,
    "pack-quantized": Kernel.GPTQ,
}
"""Kernels by the format of packed weights (compressed-tensors 0.17, `config/base.py`, `CompressionFormat`)."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """The storage of one group's weights."""

    kernel: Kernel
    bits: int | None
    group: int | None
    """Inputs that share a scale, or the side of a block; None: a scale for each output, or for the whole matrix."""


def schemes(section: Config) -> tuple[Scheme, ...]:
    """The schemes of a `quantization_config`; none if no group quantizes weights.

    Examples:
        >>> weights = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
        >>> groups = schemes(Config({"format": "float-quantized", "config_groups": {"group_0": {"weights": weights}}}))
        >>> [(scheme.kernel.value, scheme.bits, scheme.group) for scheme in groups]
        [('fp8 block', 8, 128)]

    Raises:
        UnreadableError: a number in it is invalid.
    """
    return tuple(_schemes(section))


def _schemes(section: Config) -> Iterator[Scheme]:
    groups = section.fields.get("config_groups")
    for name in groups if isinstance(groups, dict) else ():
        group = section.section("config_groups").section(name)
        weights = group.section("weights")
        if weights.fields:
            yield _scheme(weights, group.text("format") or section.text("format"))
    if not isinstance(groups, dict):
        yield _scheme(section.section("weights"), section.text("format"))


def _scheme(weights: Config, stored: str) -> Scheme:
    bits = weights.positive("num_bits")
    group = None if weights.fields.get("group_size") == WHOLE_CHANNEL else weights.positive("group_size")
    kernel = _FORMATS.get(stored) or _of_numbers(weights.text("type"), weights.text("strategy"), bits, group)
    if kernel is Kernel.FP8 and (weights.text("strategy") == "block" or weights.fields.get("block_structure")):
        return Scheme(Kernel.FP8_BLOCK, bits, _side(weights.fields.get("block_structure")))
    return Scheme(kernel, bits, group)


def _of_numbers(kind: str, strategy: str, bits: int | None, group: int | None) -> Kernel:
    """The kernel of a group whose format tells none: `mixed-precision`, `naive-quantized`, or a newer one."""
    if (bits or EIGHT) == EIGHT:
        return Kernel.INT8 if kind == "int" else Kernel.FP8
    if kind == "float":
        return Kernel.MXFP4 if group == MXFP4_GROUP and strategy != "tensor_group" else Kernel.NVFP4
    return Kernel.GPTQ


def _side(block: object) -> int:
    """The larger side of a block: a list of two numbers, or a text as `128x128`.

    Examples:
        >>> _side([128, 64]), _side("64x64"), _side(None)
        (128, 64, 128)
    """
    sides = block.split("x") if isinstance(block, str) else block
    if not isinstance(sides, list):
        return BLOCK
    numbers = [
        int(side) for side in sides if str(side).isascii() and str(side).isdigit() and len(str(side)) <= MOST_DIGITS
    ]
    return max((number for number in numbers if 0 < number <= LARGEST_BLOCK), default=BLOCK)
