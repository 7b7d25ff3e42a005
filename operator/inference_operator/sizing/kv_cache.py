"""Bytes and tokens of the KV cache on one GPU, from vLLM's KV cache groups.

- Layers with the same attention form a kind. A pipeline stage has its share of each kind, rounded up.
- If all layers cache every token, or all are of one kind without a state, they form one group.
- Otherwise each kind is divided into groups of equal size: of the smallest kind's layers, or of the largest kind's if
  the kinds differ by less than the factor `nearly_equal`.
- A block takes the same bytes in every group. Layers with fewer bytes per token have more tokens in a block.
- A layer with a state must fit its state into one block, so the block gets more tokens until it does.
- A sequence takes blocks in each group: for all its tokens, for a window or chunk and the batches in flight, or a
  fixed number for states.
- The concurrency is the number of blocks of the cache divided by the blocks of one sequence.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inference_operator.models.facts import OF_ALL_TOKENS, Attention, LayerGroup, ModelFacts
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.lora_and_speculative import drafting_layers
from inference_operator.sizing.shape import KV_BYTES, CacheOptions, Shape


@dataclass(frozen=True, slots=True)
class Kept:
    attention: Attention
    groups: int
    block_tokens: int
    window: int


@dataclass(frozen=True, slots=True)
class CacheLayout:
    unit_bytes: float
    """Of one block of one group."""
    kept: tuple[Kept, ...]
    token_bytes: float
    """Bytes of one more token when every window is full."""
    state_blocks: int
    batches_in_flight: int

    @property
    def has_states(self) -> bool:
        return any(group.attention is Attention.STATE for group in self.kept)

    @property
    def groups(self) -> int:
        return sum(group.groups for group in self.kept)

    @property
    def block_tokens(self) -> int:
        return max((group.block_tokens for group in self.kept if group.attention is not Attention.STATE), default=1)

    def blocks(self, context: int, batched: int) -> int:
        return max(1, sum(group.groups * self._blocks(group, context, batched) for group in self.kept))

    def _blocks(self, group: Kept, context: int, batched: int) -> int:
        in_flight = self.batches_in_flight * batched
        match group.attention:
            case Attention.STATE:
                return self.state_blocks
            case Attention.SLIDING:
                return math.ceil(min(group.window - 1 + in_flight, context) / group.block_tokens) + 1
            case Attention.CHUNKED:
                return math.ceil(min(group.window + in_flight, context) / group.block_tokens)
            case _:
                return math.ceil(context / group.block_tokens)


@dataclass(frozen=True, slots=True)
class AllocatedCache:
    blocks: int
    tokens: int
    """As the engine reports it."""
    concurrency: float


def allocated_cache(
    layout: CacheLayout, engine: EngineMemory, *, size: float, context: int, batched: int
) -> AllocatedCache:
    blocks = max(0, int(size // layout.unit_bytes))
    concurrency = blocks / layout.blocks(context, batched)
    if engine.tokens_by_concurrency:
        return AllocatedCache(blocks, int(concurrency * context), concurrency)
    return AllocatedCache(blocks, blocks // max(1, layout.groups) * layout.block_tokens, concurrency)


def kv_element_bytes(facts: ModelFacts, engine: EngineMemory, shape: Shape) -> float:
    if shape.kv_cache_dtype == "fp8" and facts.uses_sparse_mla and engine.latent_cache:
        return SPARSE_FP8_BYTES
    if shape.kv_cache_dtype in KV_BYTES:
        return KV_BYTES[shape.kv_cache_dtype]
    if engine.checkpoint_kv_dtype and facts.quantization.kv_cache_fp8:
        return 1
    return shape.element_bytes or facts.element_bytes


def cache_layout(facts: ModelFacts, engine: EngineMemory, shape: Shape) -> CacheLayout:
    """The layout of the KV cache on one GPU, in the pipeline stage with most layers."""
    engine, element = _with_options(engine, shape.cache), kv_element_bytes(facts, engine, shape)
    groups = [_of_stage(group, shape) for group in _as_cached(engine, facts)]
    if drafting := drafting_layers(facts, shape):
        groups = _joined([*groups, *_as_cached(engine, facts, drafting)])
    tokens = [
        (group, layer_token_bytes(group, shape.parallel.tensor, element))
        for group in groups
        if group.attention is not Attention.STATE
    ]
    states = [group for group in groups if group.attention is Attention.STATE]
    growth = sum(group.layers * size for group, size in tokens if group.attention in OF_ALL_TOKENS)
    scanned = any(group.state and group.state.scanned for group in states)
    blocks = engine.state_blocks + shape.speculative_tokens + (engine.scan_blocks if scanned else 0)
    all_full = all(group.attention in OF_ALL_TOKENS for group, _ in tokens)
    if not states and (all_full or len(tokens) == 1):
        return _divided(_uniform(engine, tokens, growth, blocks), shape.cache.ranks)
    largest = max((size for _, size in tokens), default=0.0)
    state = max((_state_bytes(group, shape, facts.element_bytes, engine.state_bytes) for group in states), default=0.0)
    block = _aligned(engine.block_tokens, state, largest)
    size = _group_size([group.layers for group, _ in tokens] + [group.layers for group in states], engine.nearly_equal)
    kept = [
        Kept(group.attention, math.ceil(group.layers / size), _tokens_in_block(block, largest, each), group.window)
        for group, each in tokens
    ]
    kept += [Kept(Attention.STATE, math.ceil(group.layers / size), block, 0) for group in states]
    unit = size * max(block * largest, state)
    return _divided(CacheLayout(unit, tuple(kept), growth, blocks, engine.batches_in_flight), shape.cache.ranks)


def _with_options(engine: EngineMemory, options: CacheOptions) -> EngineMemory:
    """The engine with what arguments change.

    Without a cache of prefixes a sequence has one state (vLLM 0.32.0, `v1/kv_cache_interface.py`, `MambaSpec`).
    """
    return replace(
        engine,
        hybrid_cache=engine.hybrid_cache and not options.one_kind,
        state_blocks=engine.state_blocks if options.keeps_prefixes else 1,
        scan_blocks=engine.scan_blocks if options.keeps_prefixes else 0,
        state_bytes=options.recurrent_bytes or engine.state_bytes,
    )


def _divided(layout: CacheLayout, ranks: int) -> CacheLayout:
    """The layout where each of several ranks keeps its part of the tokens of layers that keep all."""
    if ranks == 1:
        return layout
    kept = (
        replace(group, block_tokens=group.block_tokens * ranks) if group.attention in OF_ALL_TOKENS else group
        for group in layout.kept
    )
    return replace(layout, kept=tuple(kept), token_bytes=layout.token_bytes / ranks)


def _uniform(
    engine: EngineMemory, tokens: list[tuple[LayerGroup, float]], growth: float, state_blocks: int
) -> CacheLayout:
    every = sum(group.layers * size for group, size in tokens)
    only = tokens[0][0] if len(tokens) == 1 else LayerGroup(Attention.FULL, 1)
    kept = Kept(only.attention, 1, engine.block_tokens, only.window)
    unit = max(1.0, every * engine.block_tokens)
    return CacheLayout(unit, (kept,), growth or every, state_blocks, engine.batches_in_flight)


def _joined(groups: Sequence[LayerGroup]) -> list[LayerGroup]:
    counts = Counter[LayerGroup]()
    for group in groups:
        counts[replace(group, layers=0)] += group.layers
    return [replace(kind, layers=layers) for kind, layers in counts.items()]


def _as_cached(
    engine: EngineMemory, facts: ModelFacts, groups: Sequence[LayerGroup] | None = None
) -> tuple[LayerGroup, ...]:
    """The groups as this engine caches them. Older engines cache windows and latent vectors like full attention."""
    narrow = () if engine.hybrid_cache else (Attention.SLIDING, Attention.CHUNKED)
    cached = (
        replace(group, attention=Attention.FULL) if group.attention in narrow else group
        for group in groups or facts.groups
    )
    if engine.latent_cache:
        return tuple(cached)
    size = UNCOMPRESSED_ELEMENTS
    return tuple(
        replace(group, kv_heads=facts.heads, elements=size) if group.attention is Attention.LATENT else group
        for group in cached
    )


SPARSE_FP8_BYTES = 656 / 576
"""Of each element of a latent vector that sparse attention keeps as `fp8`: its scales, and its positions in 16 bits,
are in the same row (0.32.0, `v1/attention/backends/mla/flashmla_sparse.py`)."""
UNCOMPRESSED_ELEMENTS = 2 * 256
"""Keys of 192 elements a head and values of 128, padded to the next size of its kernels (DeepSeek V2 in vLLM 0.5)."""


def _of_stage(group: LayerGroup, shape: Shape) -> LayerGroup:
    return replace(group, layers=math.ceil(group.layers / shape.parallel.pipeline))


def layer_token_bytes(group: LayerGroup, tensor: int, element: float) -> float:
    """Bytes of one token in one layer. With more ranks than KV heads, several ranks hold the same head."""
    if group.token_bytes is not None:
        return group.token_bytes
    heads = max(1, math.ceil(group.kv_heads / tensor))
    return float(heads * group.elements * element)


def _state_bytes(group: LayerGroup, shape: Shape, element: int, recurrent: int | None) -> float:
    """Bytes of one layer's state for one sequence. Speculative decoding keeps the inputs of its draft tokens too."""
    state = group.state
    if state is None:
        return 0.0
    length = state.convolution_length + shape.speculative_tokens
    convolution = state.convolution_width * length * (shape.cache.convolution_bytes or element)
    return (convolution + state.recurrent * (recurrent or state.recurrent_bytes or element)) / shape.parallel.tensor


def _aligned(block: int, state: float, token: float) -> int:
    return max(block, math.ceil(state / token / block) * block) if token else block


def _tokens_in_block(block: int, largest: float, size: float) -> int:
    """Tokens of a block in layers with fewer bytes per token: a block has the same bytes in all of them."""
    return block * max(1, int(largest // size)) if size else block


def _group_size(layers: list[int], nearly_equal: float) -> int:
    """Examples: 52 and 10 layers form groups of 10, 13 and 13 of 13, 9 and 10 of 10."""
    smallest, largest = min(layers), max(layers)
    return largest if largest < nearly_equal * smallest else smallest


@dataclass(frozen=True, slots=True)
class CacheReads:
    """Bytes of the KV cache on one GPU that a step reads for one sequence, in one pipeline stage."""

    token: float
    """For each token, in layers that keep all tokens."""
    windows: Mapping[int, float]
    """For each token within a window, by the window's tokens."""
    state: float
    """In layers with a state of fixed size, which a step also writes."""


def cache_reads(facts: ModelFacts, engine: EngineMemory, shape: Shape) -> CacheReads:
    element, tensor = kv_element_bytes(facts, engine, shape), shape.parallel.tensor
    token, state = 0.0, 0.0
    windows: dict[int, float] = {}
    for group in facts.groups:
        staged = _of_stage(group, shape)
        match staged.attention:
            case Attention.STATE:
                state += 2 * staged.layers * _state_bytes(staged, shape, facts.element_bytes, engine.state_bytes)
            case Attention.SLIDING | Attention.CHUNKED:
                layer_bytes = layer_token_bytes(staged, tensor, element)
                windows[staged.window] = windows.get(staged.window, 0.0) + staged.layers * layer_bytes
            case _:
                token += staged.layers * layer_token_bytes(staged, tensor, element)
    return CacheReads(token, windows, state)
