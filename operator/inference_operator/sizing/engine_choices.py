"""Sizes that the engine would choose itself, and that no argument needs to set."""

from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.activation import default_batched_tokens
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.shape import Shape, SizingRequest

CONTEXT, SEQUENCES, BATCHED_TOKENS = "maxModelLen", "maxNumSeqs", "maxNumBatchedTokens"
"""Names of the sizes, as in `spec.engine` and `status.plan`."""


def left_to_engine(
    facts: ModelFacts, engine: EngineMemory, shape: Shape, found: Budget, request: SizingRequest
) -> tuple[str, ...]:
    """The sizes that are not requested and equal what the engine derives; it refuses some numbers above its own.

    Args:
        facts: the model.
        engine: the engine, with its defaults.
        shape: the shape that was chosen, with None where the engine's default applies.
        found: the budget of the shape.
        request: the sizes that the user requests.
    """
    derived = (
        (CONTEXT, context_left(facts, request.context, found.context)),
        (SEQUENCES, shape.max_num_seqs is None),
        (
            BATCHED_TOKENS,
            shape.max_num_batched_tokens is None
            and found.max_num_batched_tokens == default_batched_tokens(facts, engine, shape, found.context),
        ),
    )
    return tuple(name for name, is_default in derived if is_default)


def context_left(facts: ModelFacts, requested: int | None, context: int | None) -> bool:
    """Whether the engine derives this context itself from the model's files. From files without one it derives another.

    Args:
        facts: the model.
        requested: the context that the user requests, or that a correction limits.
        context: the context that was chosen.
    """
    chosen = requested is None and context is not None and context >= facts.context
    return chosen and facts.context_stated
