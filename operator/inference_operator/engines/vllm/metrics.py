"""Prometheus metrics of vLLM that the operator reads (vllm-project/vllm v0.32.0, vllm/v1/metrics/loggers.py)."""

import re
from collections import defaultdict
from collections.abc import Mapping
from math import isfinite

from inference_operator.engines.series import are_counts, histogram, lines, series
from inference_operator.engines.telemetry import EngineSeries
from inference_operator.views.samples import EngineSample, TokenCounts

REQUESTS_RUNNING = "vllm:num_requests_running"
REQUESTS_WAITING = "vllm:num_requests_waiting"
_GENERATED = "vllm:generation_tokens_total"

_PROGRESS = (
    "vllm:iteration_tokens_total_count",
    "vllm:prompt_tokens_total",
    _GENERATED,
    "vllm:kv_cache_usage_perc",
    REQUESTS_RUNNING,
    REQUESTS_WAITING,
)
"""Metrics that the engine core updates with its scheduler iterations. None changes while the core hangs, although the
API process still serves them. Counters alone are not enough: an iteration that computes part of a long prompt has no
output, and the API process then counts no iteration (vLLM 0.32.0, vllm/v1/engine/async_llm.py, output_handler). The KV
cache usage grows nevertheless."""

CACHE_INFO = "vllm:cache_config_info"
"""Configuration of the KV cache, as labels. It appears once the cache is allocated."""
CACHE_TOKENS = re.compile(r'[{,]kv_cache_size_tokens="(\d{1,15})"')
"""Its label with the number that vLLM logs as "GPU KV cache size", on every device. More digits are no number of
tokens."""

_CACHE_USAGE = "vllm:kv_cache_usage_perc"
_PREEMPTIONS = "vllm:num_preemptions_total"
_ANSWERED = "vllm:request_success_total"
TTFT = "vllm:time_to_first_token_seconds"
TPOT = "vllm:request_time_per_output_token_seconds"
ITL = "vllm:inter_token_latency_seconds"
_PROMPT, _ANSWER = "vllm:request_prompt_tokens", "vllm:request_generation_tokens"
_COMPUTED = "vllm:request_prefill_kv_computed_tokens"
"""Histogram of the tokens of their prompts that the prefix cache did not have."""
_LOOKED_UP, _CACHED = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
_GUESSED, _ACCEPTED = "vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"
_TOKENS = (f"{_PROMPT}_count", f"{_PROMPT}_sum", f"{_ANSWER}_sum", _LOOKED_UP, _CACHED, _GUESSED, _ACCEPTED)
_RECEIVED = "vllm:external_prefix_cache_hits_total"

SERIES = EngineSeries(
    running=REQUESTS_RUNNING,
    waiting=REQUESTS_WAITING,
    finished=_ANSWERED,
    kv_cache_usage=_CACHE_USAGE,
    first_token=TTFT,
    inter_token=ITL,
    former={
        _CACHE_USAGE: "vllm:gpu_cache_usage_perc",  # until 0.11
        ITL: "vllm:time_per_output_token_seconds",  # until 0.15
    },
)

LOAD = (REQUESTS_RUNNING, REQUESTS_WAITING, _CACHE_USAGE, _PREEMPTIONS, _ANSWERED, _GENERATED)


def engine_sample(text: str) -> EngineSample | None:
    sums: dict[str, float] = defaultdict(float)
    model = ""
    try:
        for item in series(text, (*_PROGRESS, _ANSWERED, *_TOKENS, _RECEIVED)):
            sums[item.name] += item.value
            model = model or item.labels.get("model_name", "")
        ttft, tpot, answers = (histogram(text, name) for name in (TTFT, TPOT, _ANSWER))
        prompts = histogram(text, _COMPUTED) or histogram(text, _PROMPT)
    except ValueError:
        return None
    if REQUESTS_RUNNING not in sums or REQUESTS_WAITING not in sums:
        return None
    if not all(isfinite(sums.get(name, 0.0)) for name in (REQUESTS_RUNNING, REQUESTS_WAITING, _ANSWERED)):
        return None  # NaN and infinities are legal in the format
    return EngineSample(
        model=model,
        running=int(sums[REQUESTS_RUNNING]),
        waiting=int(sums[REQUESTS_WAITING]),
        progress=tuple(sums.get(name, 0.0) for name in _PROGRESS),
        kv_cache_tokens=_cache_tokens(text),
        finished=sums.get(_ANSWERED, 0.0),
        ttft=ttft,
        tpot=tpot,
        tokens=_tokens(sums),
        prompts=prompts,
        answers=answers,
    )


def _tokens(sums: Mapping[str, float]) -> TokenCounts | None:
    found = {**sums, _CACHED: sums.get(_CACHED, 0.0) + sums.get(_RECEIVED, 0.0)}
    counts = [found.get(name, 0.0) for name in _TOKENS]
    known = f"{_PROMPT}_count" in sums and are_counts(counts)
    return TokenCounts(*counts) if known else None


def _cache_tokens(text: str) -> int | None:
    """Tokens in the KV cache of the first core, as all cores are alike; None if this version does not show it.

    A regular expression finds the one label: to parse all forty takes as long as everything else.
    """
    label = CACHE_TOKENS.search(next(lines(text, CACHE_INFO), ""))
    return int(label[1]) if label else None
