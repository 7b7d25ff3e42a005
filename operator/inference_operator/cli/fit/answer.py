"""The output of `infd fit`: a table, or an object with the memory of one GPU."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inference_operator.cli.output import table
from inference_operator.hardware.offers import GpuOffer
from inference_operator.manifest import Manifest
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import TYPICAL_TOKENS, Budget, EngineOnGpus
from inference_operator.sizing.fitting import started_shape
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.impossible_division import unequal
from inference_operator.sizing.infeasible import shortfall
from inference_operator.sizing.lora_and_speculative import unaccounted
from inference_operator.sizing.shape import SizingInputs

DIGITS = 3
HEAD = (
    *("GPU", "FITS", "TENSOR", "PIPELINE", "NODES", "CONTEXT"),
    *("WEIGHTS", "ACTIV.", "NON-TORCH", "GRAPHS", "KV", "KV TOKENS", "CONCURRENCY"),
)
UNITS = "WEIGHTS to KV: GiB of one GPU. CONCURRENCY: requests of the full context at once."


@dataclass(frozen=True, slots=True)
class Answer:
    gpu: str
    fits: bool
    reason: str
    budget: Budget | None
    """Memory of one GPU; None if no size was computed."""
    plan: GpuPlan | None = None
    assumptions: tuple[str, ...] = ()
    unaccounted: tuple[str, ...] = ()
    siblings: Mapping[str, int] = field(default_factory=dict)
    """The GPUs of one engine that quantized checkpoints of the same model need, by their names."""

    def document(self) -> Manifest:
        found = self.budget
        numbers: Manifest = {
            "weightsGiB": found and round(found.weights, DIGITS),
            "activationGiB": found and round(found.activation, DIGITS),
            "nonTorchGiB": found and round(found.context_memory, DIGITS),
            "cudaGraphGiB": found and round(found.graphs, DIGITS),
            "kvCacheGiB": found and round(found.kv_cache, DIGITS),
            "kvCacheTokens": found and found.kv_tokens,
            "maxConcurrency": found and round(found.concurrency, DIGITS),
        }
        missing = {"unaccounted": list(self.unaccounted)} if self.unaccounted else {}
        others = {"siblings": dict(self.siblings)} if self.siblings else {}
        return {"fits": self.fits, "reason": self.reason, **missing, **numbers, **self._chosen(), **others}

    def _chosen(self) -> Manifest:
        if self.plan is None:
            return {}
        shape, host, names = self.plan.shape, self.plan.host, ("tensor", "pipeline", "data", "nodes")
        return {
            "gpu": self.gpu,
            **{name: getattr(shape.parallel, name) for name in names},
            "gpusPerReplica": self.plan.gpus_per_replica,
            "replicasPerNode": self.plan.replicas_per_node,
            "maxModelLen": shape.context,
            "maxNumSeqs": shape.max_num_seqs,
            "maxNumBatchedTokens": shape.max_num_batched_tokens,
            "gpuMemoryUtilization": shape.utilization,
            "runnerUp": self.plan.runner_up,
            "host": {
                "cpu": host.cpu,
                "memoryGiB": host.memory_gib,
                "ephemeralStorageGiB": host.ephemeral_storage_gib,
                "sharedMemoryGiB": host.shared_memory_gib,
            },
        }


def answer_of_shape(facts: ModelFacts, kind: str, engine: EngineOnGpus, requested: SizingInputs) -> Answer:
    shape, undivided = requested.requested_shape, unequal(requested)
    found = started_shape(engine, facts, shape).budget
    rule = engine.broken_rule(facts, shape) or (undivided.problem if undivided else None)
    if rule:
        reason = rule
    elif found.fits:
        reason = f"Fits with {found.headroom:.1f} GiB beyond one sequence of {found.context:,} tokens."
    else:
        reason = shortfall(kind, shape, found)
    longest = facts.longest_context or facts.context
    if shape.context and facts.context_stated and shape.context > longest:
        reason += f" The model's maximum context length is {longest:,}."
    missing = unaccounted(facts, shape)
    reason += _not_counted(missing)
    return Answer(kind, found.fits and not rule, reason, found, assumptions=facts.assumptions, unaccounted=missing)


def answer_of_plan(plan: GpuPlan | Infeasible, offer: GpuOffer) -> Answer:
    if isinstance(plan, Infeasible):
        return Answer(offer.kind, fits=False, reason=f"{plan.problem} {plan.cure}", budget=plan.budget)
    group = plan.shape.parallel.on(plan.offer.kind)
    reason = f"Fits with {group} and a context of {plan.budget.context:,}."
    if plan.context_reduced:
        reason += " This is less than the target: no node has a larger group of these GPUs."
    reason += _not_counted(plan.unaccounted)
    return Answer(
        plan.offer.kind,
        fits=True,
        reason=reason,
        budget=plan.budget,
        plan=plan,
        assumptions=plan.assumptions,
        unaccounted=plan.unaccounted,
    )


def _not_counted(missing: Sequence[str]) -> str:
    return f" Not counted: {', '.join(missing)}." if missing else ""


def report(answers: Sequence[Answer], *, verbose: bool) -> Iterator[str]:
    yield from table([HEAD, *(_row(one) for one in answers)])
    if any(one.budget for one in answers):
        yield UNITS
    said = [one for one in answers if len(answers) == 1 or not one.fits or one.unaccounted]
    for reason in dict.fromkeys(one.reason for one in said):
        yield f"{', '.join(one.gpu for one in said if one.reason == reason)}: {reason}"
    for one in answers:
        if one.plan and one.plan.runner_up and (len(answers) == 1 or verbose):
            yield f"{one.gpu}: runner-up: {one.plan.runner_up}"
    yield from _sibling_lines(answers)
    if verbose:
        for one in answers:
            yield from _memory_lines(one)


def _sibling_lines(answers: Sequence[Answer]) -> Iterator[str]:
    for name in dict.fromkeys(name for one in answers for name in one.siblings):
        needs = (
            f"{one.siblings[name]} x {one.gpu}" + (f" in place of {own}" if own else "")
            for one in answers
            if name in one.siblings
            and (not (own := one.plan.gpus_per_replica if one.plan else 0) or one.siblings[name] < own)
        )
        if found := ", ".join(needs):
            yield f"{name} needs {found}."


def _row(one: Answer) -> Sequence[str]:
    found = one.budget
    if found is None or (not one.fits and one.plan is None and found.kv_cache <= 0):
        return (one.gpu, "no")
    sizes = one.plan.shape.parallel if one.plan else None
    amounts = (found.weights, found.activation, found.context_memory, found.graphs, found.kv_cache)
    return (
        one.gpu,
        "yes" if one.fits else "no",
        *((str(sizes.tensor), str(sizes.pipeline), str(sizes.nodes)) if sizes else ("-", "-", "-")),
        f"{found.context:,}",
        *(f"{gib:.1f}" for gib in amounts),
        f"{found.kv_tokens:,}",
        f"{found.concurrency:.1f}x",
    )


def _memory_lines(one: Answer) -> Iterator[str]:
    if one.budget is None:
        return
    found = one.budget
    yield ""
    yield f"{one.gpu}: {found.memory:.2f} GiB, the engine may use {found.utilization:g} of it: {found.offered:.2f} GiB"
    for term in found.terms:
        yield f"  {term.name:<12} {term.gib:>9.2f} GiB   {term.origin}"
    yield f"  KV cache per token: {found.kv_token_bytes:,.0f} bytes"
    yield f"  KV cache of a sequence of {found.context:,} tokens: {found.kv_needed:.2f} GiB"
    typical = f", or {found.typical_concurrency:.1f} of {TYPICAL_TOKENS:,} tokens"
    yield f"  maximum concurrency: {found.concurrency:.1f} of these{typical if found.context > TYPICAL_TOKENS else ''}"
    for assumption in one.assumptions:
        yield f"  assumption: {assumption}"
