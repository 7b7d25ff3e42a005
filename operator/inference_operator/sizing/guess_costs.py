"""The costs of speculative decoding in a step (`steptime.py`): of what guesses tokens, and of verifying them."""

from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.efficiency import HEAD_SHARE, MEMORY_SHARE
from inference_operator.sizing.kv_cache import layer_token_bytes
from inference_operator.sizing.lora_and_speculative import draft_gib, draft_shape
from inference_operator.sizing.shape import KV_BYTES, Shape, Speculation
from inference_operator.sizing.steptime import GuessCosts
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB

GUESS_SECONDS = 0.55e-3
"""To start the kernels of one guess of a head or layer, beside reading it. This and the next one are fitted to the
rows of Llama 3.1 8B (`python -m bench.speculation`)."""
DRAFT_LAYER_SECONDS = 30e-6
"""To start the kernels of one more layer of a draft model. Assumed: about ten kernels of 3 microseconds, in a graph."""
VERIFY_SECONDS = 0.8e-3
"""To compare the guesses of a step with what the model computed, and to prepare the next ones."""


def guess_costs(facts: ModelFacts, gpu: GpuOffer, shape: Shape, *, exchange_seconds: float) -> GuessCosts | None:
    """The costs of a step's guesses; None without any, and where what guesses them is unknown or the text itself.

    It multiplies 16-bit weights, of which a step reads all; a layer of the model itself with experts reads fewer.

    Args:
        exchange_seconds: latency of an exchange between the tensor ranks.
    """
    speculation = shape.speculation
    if speculation is None or speculation.unknown:
        return None
    draft = None if speculation.head_bytes else speculation.draft_facts
    # Where the text itself guesses, it does so only in steps where it repeats: nothing says how many those are.
    if not (draft or speculation.head_bytes or (speculation.own_layer and not speculation.draft)):
        return None
    memory, operations = MEMORY_SHARE * gpu.bandwidth_gb_per_s * 1e9, HEAD_SHARE * gpu.tflops * 1e12
    logits = facts.vocabulary * facts.hidden_size / shape.parallel.tensor
    read, elements = _read_bytes(facts, shape, speculation, draft, logits)
    layers = draft.layers if draft else 1
    started = GUESS_SECONDS + (layers - 1) * DRAFT_LAYER_SECONDS
    exchanges = 2 * layers * exchange_seconds if shape.parallel.tensor > 1 else 0.0
    cached = _cached_bytes(draft, shape) if draft else 0.0
    tokens = speculation.tokens
    return GuessCosts(
        tokens,
        fixed=tokens * (read / memory + started + exchanges) + VERIFY_SECONDS,
        sequence=tokens * 2 * (elements + logits) / operations,
        cached_token=tokens * cached / memory,
        accepted=speculation.accepted,
    )


def _read_bytes(
    facts: ModelFacts, shape: Shape, speculation: Speculation, draft: ModelFacts | None, logits: float
) -> tuple[float, float]:
    """Bytes of a rank that one guess reads, and elements that it multiplies."""
    if draft:
        read = rank_weights(draft, draft_shape(shape))[0].always_read
        return read, read / (shape.element_bytes or draft.element_bytes)
    size, element = draft_gib(facts, shape) * GIB, shape.element_bytes or facts.element_bytes
    if speculation.own_layer:  # which has the model's own head
        return size + element * logits, size / element + logits
    return size / shape.parallel.tensor, size / shape.parallel.tensor / element


def _cached_bytes(draft: ModelFacts, shape: Shape) -> float:
    """Bytes of one token in the draft model's cache; windows count as if they kept all."""
    element = KV_BYTES.get(shape.kv_cache_dtype, shape.element_bytes or draft.element_bytes)
    tensor = shape.parallel.tensor
    return sum(group.layers * layer_token_bytes(group, tensor, element) for group in draft.groups)
