"""Prompts and answers computed apart: the way of a KV cache from engine to engine, and when that pays.

- On its way a prompt has one more request, its KV cache passes a network, and it waits for a step of the engine that
  answers.
- It breaks even where each answer beside it would wait longer for its computation than it takes on its way.
- A prompt whose KV cache takes more than `TRANSFER_SHARE` of the time to its first token leaves nothing for the queue
  of prompts: no such length is a break-even, and a specification that sends none shorter is refused.
- A rate of requests needs engines for prompts alone, as pooling models have them (`serving.py`), which keep what the
  way leaves of the time to the first token, and engines for answers whose prompts are all in their cache.

It is the arithmetic of `infd fit`, of the plan and of validation alike. It is computed, and measured on no GPU.
"""

import math
from dataclasses import dataclass, replace

from inference_operator.api.disaggregation import MIN_PROMPT_TOKENS, DisaggregationSpec
from inference_operator.models.facts import Attention, ModelFacts
from inference_operator.sizing.efficiency import NETWORK_GB_PER_S
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.serving import Load, Serving, serving, serving_of_plan
from inference_operator.sizing.shape import LEAST_SEQUENCES, Objective
from inference_operator.units import GIB

BITS, GIGA = 8, 1e9
TCP_GBIT_PER_S = 10.0
"""Of one connection, as UCX opens it, between two instances in a placement group; half of it elsewhere (Amazon EC2 User
Guide, "Amazon EC2 instance network bandwidth")."""
LEG_SECONDS = 0.02
"""Of the request to the engine for prompts, beside its computation: 11 ms of processor time at both ends for 16,384
tokens (`python -m bench.disaggregation`), and the hop over a router."""
TRANSFER_SHARE = 0.25
"""Most of the TTFT objective that the transfer of a KV cache may take."""
SHORTEST, LENGTHS_PER_OCTAVE = 64, 4
"""Break-evens are looked for among lengths of prompts that differ by a fifth: the model of a step is not more exact."""


@dataclass(frozen=True, slots=True)
class KVPath:
    token_bytes: float
    """Of one token on all ranks: each reads those of its counterpart, also what all ranks have alike."""
    gigabits: float
    """Gbit/s of the network that one engine has for them."""

    def gib(self, tokens: float) -> float:
        return tokens * self.token_bytes / GIB

    def seconds(self, tokens: float) -> float:
        return BITS * tokens * self.token_bytes / (self.gigabits * GIGA)

    def longest(self, objective: Objective) -> float:
        """Tokens of the longest prompt whose KV cache leaves enough of the objective."""
        if self.seconds(1000) <= TRANSFER_SHARE * objective.ttft_per_1000:
            return math.inf
        return TRANSFER_SHARE * objective.ttft / self.seconds(1)

    def problem(self, tokens: float, objective: Objective) -> str:
        if tokens <= self.longest(objective):
            return ""
        allowed = max(objective.ttft, objective.ttft_per_1000 * tokens / 1000)
        return (
            f"The KV cache of {tokens:,.0f} prompt tokens is {self.gib(tokens):.2f} GiB and takes"
            f" {self.seconds(tokens):.2g} s over {self.gigabits:g} Gbit/s, more than a quarter of the {allowed:g} s to"
            " the first token."
        )


def gigabits(asked: float | None, *, has_devices: bool, gpus: int) -> float:
    """Gbit/s for the KV caches of one engine: as somebody says, else what networks of their kind have at least."""
    return asked or (BITS * NETWORK_GB_PER_S * gpus if has_devices else TCP_GBIT_PER_S)


def kv_path(plan: Plan, apart: DisaggregationSpec) -> KVPath | None:
    if plan.per_gpu is None or not plan.per_gpu.kv_token_bytes:
        return None
    network, gpus = apart.network, plan.gpus_per_replica
    speed = gigabits(network.gigabits_per_second, has_devices=bool(network.devices), gpus=gpus)
    return KVPath(float(plan.per_gpu.kv_token_bytes * plan.parallel.world_size), speed)


def least_prompt(plan: Plan, apart: DisaggregationSpec, objective: Objective) -> int:
    return apart.min_prompt_tokens or _plan_break_even(plan, apart, objective) or MIN_PROMPT_TOKENS


def _plan_break_even(plan: Plan, apart: DisaggregationSpec, objective: Objective) -> int | None:
    engine, path = serving_of_plan(plan), kv_path(plan, apart)
    return break_even(engine, path, objective, context=plan.max_model_len or 0) if engine and path else None


def break_even(engine: Serving, path: KVPath, objective: Objective, *, context: int) -> int | None:
    """The prompt length from which each answer beside a prompt would wait for it longer than it takes on its way.

    None if no length within context and objective is one: the network is slower than the engine.
    """
    longest = min(float(context), path.longest(objective))
    found, most = None, int(math.log2(max(1.0, longest / SHORTEST)) * LENGTHS_PER_OCTAVE)
    for step in range(most, -1, -1):
        tokens = math.ceil(SHORTEST * 2 ** (step / LENGTHS_PER_OCTAVE))
        if _held_up(engine, tokens) < remote_seconds(engine, path, tokens):
            break
        found = tokens if tokens <= longest else None
    return found


def remote_seconds(engine: Serving, path: KVPath, tokens: float) -> float:
    return LEG_SECONDS + engine.costs.seconds(1, context=tokens) + path.seconds(tokens)


def _held_up(engine: Serving, tokens: float) -> float:
    """Seconds by which a prompt lengthens the steps of a batch of answers."""
    chunk = min(tokens, float(engine.max_num_batched_tokens))
    answers, seconds = min(LEAST_SEQUENCES, engine.max_num_seqs), engine.costs.seconds
    return tokens / chunk * (seconds(answers, prompt=chunk, before=tokens / 2) - seconds(answers))


def sent_in_words(plan: Plan, apart: DisaggregationSpec, objective: Objective, sent: int | None = None) -> str:
    """Which prompts are sent and what their way takes, in sentences; empty where it is not known.

    Args:
        sent: from how many tokens on engines send them that an older release has made.
    """
    path, even = kv_path(plan, apart), _plan_break_even(plan, apart, objective)
    if path is None or serving_of_plan(plan) is None:
        return ""
    tokens = sent or apart.min_prompt_tokens or even or MIN_PROMPT_TOKENS
    pays = f"A prompt breaks even from {even:,} tokens on" if even else "No length of a prompt breaks even"
    return (
        f"Engines of their own compute prompts of {tokens:,} tokens and more; the KV cache of one is"
        f" {path.gib(tokens):.2f} GiB, {path.seconds(tokens):.2g} s over {path.gigabits:g} Gbit/s. {pays}."
    )


def unsendable(facts: ModelFacts) -> str:
    """What of a model is not sent from engine to engine, as the subject of a sentence; empty if all is."""
    kinds = {group.attention for group in facts.groups}
    if facts.is_pooling or facts.is_encoder:
        return "Prompts that get no answer of text"
    if facts.tower is not None:
        return "KV caches of images, video and sound"
    if len(kinds) > 1 or not kinds <= {Attention.FULL, Attention.LATENT} or facts.has_unknown_states:
        return "KV caches of which layers keep different things (hybrid models, sliding windows, states)"
    return "KV caches with an index" if facts.uses_sparse_mla else ""


def of_prompts(plan: Plan, objective: Objective) -> tuple[Plan, Objective]:
    """A plan and an objective of engines that compute prompts for others, and leave time for the way."""
    step = replace(plan.step, decodes=False) if plan.step else None
    left = 1 - TRANSFER_SHARE
    sooner = replace(objective, ttft=left * objective.ttft, ttft_per_1000=left * objective.ttft_per_1000)
    return replace(plan, step=step), sooner


@dataclass(frozen=True, slots=True)
class ApartPlan:
    prefill: GpuPlan
    decode: GpuPlan
    prefill_replicas: int
    decode_replicas: int
    keeps_objective: bool
    """Whether both keep it; else the operator aims at twice the latencies of lone requests."""

    @property
    def gpus(self) -> int:
        return self.prefill_replicas * self.prefill.gpus_per_replica + self.decode_gpus

    @property
    def decode_gpus(self) -> int:
        return self.decode_replicas * self.decode.gpus_per_replica

    @property
    def ratio(self) -> float:
        """GPUs for prompts for each one for answers."""
        return self.gpus / self.decode_gpus - 1


def apart_plan(
    prefill: GpuPlan, decode: GpuPlan, load: Load, objective: Objective, *, rate: float, path: KVPath
) -> ApartPlan | None:
    if prefill.step is None or decode.step is None:
        return None
    prompts = serving(replace(prefill.step, decodes=False), prefill.budget)
    found = carried_apart(prompts, serving(decode.step, decode.budget), load, objective, path)
    if found is None:
        return None
    computed, answered, keeps = found
    return ApartPlan(prefill, decode, math.ceil(rate / computed), math.ceil(rate / answered), keeps)


def carried_apart(
    prompts: Serving, answers: Serving, load: Load, objective: Objective, path: KVPath
) -> tuple[float, float, bool] | None:
    """The requests in a second of one engine of each role, and whether both keep the objective; None as above."""
    left = objective.ttft - remote_seconds(answers, path, load.prompt)
    prompt_load, answer_load = replace(load, answer=0.0, answer_spread=0.0), replace(load, cached=1.0)
    first, further = replace(objective, ttft=left), replace(objective, ttft=math.inf)
    if not (prompts.keeps_alone(prompt_load, first) and answers.keeps_alone(answer_load, further)):
        return None
    computed, *_ = prompts.best(prompt_load, prompts.attainable(prompt_load, first))
    answered, *_ = answers.best(answer_load, answers.attainable(answer_load, further))
    return computed.requests, answered.requests, computed.keeps(first) and answered.keeps(further)
