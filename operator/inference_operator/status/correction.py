"""Sentences of `Sized` about an engine that did not start: its report, and the sizes that follow from it."""

from collections.abc import Iterator

from inference_operator.sizing.engine_choices import CONTEXT, SEQUENCES
from inference_operator.sizing.learned import Learned
from inference_operator.sizing.plan import Plan


def correction(plan: Plan) -> str:
    """The engine's report and the sizes that follow; empty if the plan was not corrected.

    Examples:
        >>> from dataclasses import replace
        >>> from inference_operator.sizing.plan import unchecked_plan
        >>> from inference_operator.sizing.shape import Shape, SizingInputs
        >>> plan = unchecked_plan(SizingInputs(tensor=1, shape=Shape(context=944)))
        >>> correction(replace(plan, learned=Learned("", 1, context=2048, longest=1000)))
        'The first engine did not start: it reported that 1,000 tokens fit. So the context was reduced from 2,048 to \
944 tokens. To choose it yourself, set `spec.engine.maxModelLen`.'
    """
    learned = plan.learned
    if learned is None:
        return ""
    return (
        f"The first engine did not start: it reported {' and '.join(_reports(learned))}."
        f" So {', and '.join(_changes(plan, learned))}. To choose it yourself, set `spec.engine.{_field(learned)}`."
    )


def _field(learned: Learned) -> str:
    return SEQUENCES if learned.sequences else CONTEXT


def _reports(learned: Learned) -> Iterator[str]:
    if learned.sequences:
        yield f"that a batch has room for the states of {learned.sequences:,} sequences"
    if learned.longest:
        yield f"that {learned.longest:,} tokens fit"
    if learned.memory_gib:
        yield f"{learned.memory_gib:.1f} GiB more memory in use on each GPU than estimated"


def _changes(plan: Plan, learned: Learned) -> Iterator[str]:
    """The sizes that differ from those of the engine that reported."""
    if plan.gpu != learned.gpu:
        yield f"engines use {plan.gpu} instead of {learned.gpu}"
    if plan.parallel.tensor != learned.tensor:
        yield f"the tensor parallel size was changed from {learned.tensor} to {plan.parallel.tensor}"
    if plan.max_model_len and learned.context is None:
        yield f"the context was limited to {plan.max_model_len:,} tokens"
    elif plan.max_model_len and learned.context and plan.max_model_len < learned.context:
        yield f"the context was reduced from {learned.context:,} to {plan.max_model_len:,} tokens"
    if plan.max_num_seqs and learned.sequences:
        yield f"a batch has at most {plan.max_num_seqs:,} sequences"
    if plan.max_num_batched_tokens and plan.max_num_batched_tokens != learned.batched_tokens:
        yield f"`max_num_batched_tokens` was set to {plan.max_num_batched_tokens:,}"
