"""The report of an engine about its memory when it did not start, and its use by a later plan.

A learned value belongs to one specification of one resource. It is stored with the plan, and a plan for another
specification starts without it.
"""

from dataclasses import dataclass, replace

from inference_operator.sizing.shape import SizingInputs

KEPT_SHARE = 0.95
"""Part of the reported longest context that is used. The next start may have slightly less free memory than the one
that reported."""
CONTEXT_MULTIPLE = 16
"""A context that follows from a report is a multiple of it: the tokens of a KV cache block on CUDA (vLLM 0.32.0,
`config/cache.py`)."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Memory that an engine lacked at its start, in its own figures; None where it reported none."""

    context: int | None = None
    """The context in tokens for which the KV cache was too small."""
    longest: int | None = None
    """The longest context in tokens that would fit."""
    kv_cache_gib: float | None = None
    """Memory that was left for the KV cache; negative if less than none."""
    sequences: int | None = None
    """The largest number of sequences of a batch with which it would start."""
    used_gib: float | None = None
    """Memory of one GPU that it needed at least when a GPU ran out of memory before the KV cache was allocated."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The correction of a plan, from the shortage of an engine of the plan before it."""

    gpu: str
    tensor: int
    pipeline: int = 1
    nodes: int = 1
    context: int | None = None
    """Its context in tokens; None: the model's own."""
    batched_tokens: int | None = None
    """Its `max_num_batched_tokens`; None: the engine's default."""
    longest: int | None = None
    """The longest context in tokens that the engine reported to fit."""
    memory_gib: float = 0.0
    """Memory of one GPU that the engine used beyond the estimate."""
    kv_cache_bytes: int | None = None
    """Size of the KV cache that the plan set."""
    sequences: int | None = None
    """The largest number of sequences of a batch that the engine reported to start with."""


def most_sequences(learned: Learned | None) -> int | None:
    """The sequences of a batch with which an engine starts, as it reported, with a margin; None: it reported none.

    Examples:
        >>> most_sequences(Learned("", 1, sequences=614)), most_sequences(None)
        (583, None)
    """
    return max(1, int(KEPT_SHARE * learned.sequences)) if learned and learned.sequences else None


def on_the_same_gpus(inputs: SizingInputs, learned: Learned, *, least: int) -> SizingInputs | None:
    """The inputs for a shorter context, or fewer sequences, on the GPUs of the plan before; None: neither can help.

    A shorter context cannot help where the user requests the context, or where it would be shorter than `least`.
    """
    context = shorter_context(inputs.context, learned)
    only_sequences = learned.longest is None and learned.sequences is not None
    if not learned.gpu or (context is not None and context < least) or (inputs.context and not only_sequences):
        return None
    same = replace(inputs, tensor=learned.tensor, kinds=(learned.gpu,), shape=replace(inputs.shape, context=context))
    stages = learned.pipeline if learned.nodes > 1 else inputs.pipeline
    return replace(same, pipeline=stages, nodes=learned.nodes)


def shorter_context(requested: int | None, learned: Learned | None) -> int | None:
    """The requested context, else the one that an engine reported to fit, with a margin; None: none was reported.

    Examples:
        >>> shorter_context(None, Learned("", 1, longest=1000)), shorter_context(4096, Learned("", 1, longest=1000))
        (944, 4096)
    """
    if requested or learned is None or learned.longest is None:
        return requested
    kept = int(KEPT_SHARE * learned.longest)
    return kept // CONTEXT_MULTIPLE * CONTEXT_MULTIPLE or kept
