"""Sizes that the engine would choose itself, and that no argument needs to set."""

from inference_operator.models.facts import ModelFacts

CONTEXT, SEQUENCES, BATCHED_TOKENS = "maxModelLen", "maxNumSeqs", "maxNumBatchedTokens"
"""Names of the sizes, as in `spec.engine` and `status.plan`."""


def context_left(facts: ModelFacts, requested: int | None, context: int | None) -> bool:
    """Whether the engine derives this context itself from the model's files. From files without one it derives another.

    Args:
        requested: the context that the user requests, or that a correction limits.
    """
    chosen = requested is None and context is not None and context >= facts.context
    return chosen and facts.context_stated
