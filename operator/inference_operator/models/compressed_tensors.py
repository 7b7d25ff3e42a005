"""The schemes of a checkpoint of llm-compressor (`quant_method: compressed-tensors`): one for each of its groups.

A group names layers, and how their weights are stored; its `format` comes before that of the checkpoint (vLLM 0.32.0,
`layers/quantization/compressed_tensors/compressed_tensors.py`, `_get_scheme_from_parts`). Names are of single layers,
regular expressions after `re:`, or the class `Linear`; a name comes before the class, and `ignore` before both.

Whoever writes a model writes the expressions. They are not run: the words in them tell which parts of a model they are
of.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from inference_operator.models.config import Config
from inference_operator.models.facts import EVERY_PART, Kernel, MatrixPart

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
_LAYER = re.compile(r"\blayers[\\.]+\(?(?:\?:)?0[0|]*")
"""What a name, or an expression, has that is of single layers; their numbers are 0."""
_OTHER = re.compile(r"gate\$?$|vision|visual|audio|mm_proj|multi_modal|mtp|lm_head|embed")
"""Routers, encoders and ends of a model, which no part of the three has."""
_WORDS = (
    (re.compile(r"shared_?(expert|mlp)|mlp[\\.]+\(?(gate|up|down)"), {MatrixPart.MLP}),
    (re.compile("expert"), {MatrixPart.EXPERTS}),
    (re.compile("att(n|ention)|mixer"), {MatrixPart.ATTENTION}),
    (re.compile(r"mlp|feed_forward|ffn|gate|up\b|up_|down|\bw[123]|\bfc"), {MatrixPart.MLP, MatrixPart.EXPERTS}),
    (re.compile("_proj"), {MatrixPart.ATTENTION}),
)
"""Words of names with the parts that they tell; the first that is in a name counts."""
TARGETS, IGNORED = LAYER_LISTS = ("targets", "ignore")
LONGEST_NAME = 200
"""Characters of a name that are read; those of public checkpoints have at most 90."""


@dataclass(frozen=True, slots=True)
class Scheme:
    kernel: Kernel
    bits: int | None
    group: int | None
    """Inputs that share a scale, or the side of a block; None: a scale for each output, or for the whole matrix."""
    symmetric: bool = False
    """Whether there are no zero points."""
    shares: Mapping[MatrixPart, float] = field(default_factory=lambda: dict.fromkeys(EVERY_PART, 1.0))
    """How much of each part is stored so; nothing of the parts that are not in it."""


def schemes(section: Config, layers: int) -> tuple[Scheme, ...]:
    """The schemes of a `quantization_config` of a model with so many layers; none if no group quantizes weights.

    Examples:
        >>> weights = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
        >>> section = Config({"format": "float-quantized", "config_groups": {"group_0": {"weights": weights}}})
        >>> groups = schemes(section, 2)
        >>> [(scheme.kernel.value, scheme.bits, scheme.group) for scheme in groups]
        [('fp8 block', 8, 128)]
    """
    found = sorted(_schemes(section, layers), key=lambda named: not named[1])
    left = {part: 1 - share for part, share in _shares(section, IGNORED, layers).items()}
    own = []
    for scheme, shares in found:
        taken = {part: min(left.get(part, 1.0), shares.get(part, 0.0 if shares else 1.0)) for part in EVERY_PART}
        left = {part: left.get(part, 1.0) - share for part, share in taken.items()}
        own.append(replace(scheme, shares={part: share for part, share in taken.items() if share > 0}))
    return tuple(own) if any(scheme.shares for scheme in own) else tuple(scheme for scheme, _ in found)


def _schemes(section: Config, layers: int) -> Iterator[tuple[Scheme, Mapping[MatrixPart, float]]]:
    """Each group's scheme, and the parts that it names; none for the class of all layers."""
    groups = section.fields.get("config_groups")
    for name in groups if isinstance(groups, dict) else ():
        group = section.section("config_groups").section(name)
        weights = group.section("weights")
        if weights.fields:
            yield _scheme(weights, group.text("format") or section.text("format")), _shares(group, TARGETS, layers)
    if not isinstance(groups, dict):
        yield _scheme(section.section("weights"), section.text("format")), {}


def _shares(section: Config, name: str, layers: int) -> dict[MatrixPart, float]:
    """How much of each part a list of names is of: all of it by an expression, or the named layers' share.

    The projections of a module have one share, and the modules of a part, as two kinds of attention, are added.
    """
    names = section.fields.get(name)
    counts = shapes(names) if isinstance(names, list) else section.tally(name) if isinstance(names, dict) else {}
    modules = dict[tuple[str, MatrixPart], float]()
    for shape, times in counts.items():
        of_layers = _LAYER.search(shape)
        share = times * (1 + of_layers[0].count("|")) / layers if of_layers else 1.0
        for part in parts_of(shape):
            module = (shape.rpartition(".")[0], part)
            modules[module] = max(modules.get(module, 0.0), share)
    found = dict[MatrixPart, float]()
    for (_, part), share in modules.items():
        found[part] = min(1.0, found.get(part, 0.0) + share)
    return found


def shapes(names: Iterable[object]) -> dict[str, int]:
    """How often each name of a layer occurs, without the layer's number.

    Examples:
        >>> shapes(["model.layers.7.self_attn.q_proj", "model.layers.17.self_attn.q_proj", "lm_head"])
        {'model.layers.0.self_attn.q_proj': 2, 'lm_head': 1}
    """
    return dict(Counter(re.sub(r"[0-9]+", "0", str(name)[:LONGEST_NAME]) for name in names))


def parts_of(name: str) -> set[MatrixPart]:
    r"""The parts that a name or an expression is of; none for the class of all layers.

    Examples:
        >>> sorted(parts_of("re:.*self_attn.*")), sorted(parts_of(r"re:.*mlp\.experts\..*"))
        ([<MatrixPart.ATTENTION: 'attention'>], [<MatrixPart.EXPERTS: 'experts'>])
        >>> sorted(parts_of("re:.*mlp.gate$")), sorted(parts_of("Linear"))
        ([], [])
    """
    words = name.lower()
    if _OTHER.search(words):
        return set()
    return next((parts for pattern, parts in _WORDS if pattern.search(words)), set())


def _scheme(weights: Config, stored: str) -> Scheme:
    bits = weights.positive("num_bits")
    group = None if weights.fields.get("group_size") == WHOLE_CHANNEL else weights.positive("group_size")
    kernel = _FORMATS.get(stored) or _of_numbers(weights.text("type"), weights.text("strategy"), bits, group)
    if kernel is Kernel.FP8 and (weights.text("strategy") == "block" or weights.fields.get("block_structure")):
        return Scheme(Kernel.FP8_BLOCK, bits, _side(weights.fields.get("block_structure")))
    return Scheme(kernel, bits, group, weights.flag("symmetric", default=False))


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
    texts = map(str, sides)
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS]
    return max((number for number in numbers if 0 < number <= LARGEST_BLOCK), default=BLOCK)
