"""Prometheus metrics of SGLang that the operator reads (0.5.23, `srt/observability/metrics_collector.py`).

One rank of each group of data parallel attention shows the numbers of its requests, so their sum is that of the engine.
Every rank shows the size of its KV cache, which the plan has for one rank too. The gauge of the queue keeps its last
value for up to 30 s while the engine is idle, so it counts only beside requests that run.
"""

from collections import defaultdict
from math import isfinite

from inference_operator.engines.series import are_counts, histogram, series
from inference_operator.engines.telemetry import EngineSeries
from inference_operator.views.samples import EngineSample, TokenCounts

RUNNING, WAITING = "sglang:num_running_reqs", "sglang:num_queue_reqs"
CACHE_USAGE, CACHE_TOKENS = "sglang:token_usage", "sglang:max_total_num_tokens"
FINISHED, RETRACTED = "sglang:num_requests_total", "sglang:num_retracted_requests_total"
TTFT, ITL = "sglang:time_to_first_token_seconds", "sglang:inter_token_latency_seconds"
TPOT = "sglang:request_time_per_output_token_seconds"
_PROMPT, _ANSWER = "sglang:prompt_tokens_histogram", "sglang:generation_tokens_histogram"
_CACHED, _GENERATED = "sglang:cached_tokens_total", "sglang:generation_tokens_total"

FIRST_TOKEN_BUCKETS = (
    *("0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.25", "0.5", "0.75"),
    *("1.0", "2.5", "5.0", "7.5", "10.0", "20.0", "40.0", "80.0", "160.0", "640.0", "2560.0"),
)
"""Bounds of the histogram of first tokens, in seconds: those of vLLM (0.32.0, `vllm/v1/metrics/loggers.py`), so that
rules and alerts can add up engines. SGLang's own have no 2.5."""
_PROGRESS = ("sglang:realtime_tokens_total", "sglang:prompt_tokens_total", CACHE_USAGE, RUNNING, WAITING)
"""Metrics that change with forward passes: the first one counts the tokens of each (`report_decode_stats`)."""
_TOKENS = (f"{_PROMPT}_count", f"{_PROMPT}_sum", f"{_ANSWER}_sum", _CACHED)
SERIES = EngineSeries(
    running=RUNNING, waiting=WAITING, finished=FINISHED, kv_cache_usage=CACHE_USAGE, first_token=TTFT, inter_token=ITL
)

LOAD = (RUNNING, WAITING, CACHE_USAGE, RETRACTED, FINISHED, _GENERATED)


def engine_sample(text: str) -> EngineSample | None:
    sums: dict[str, float] = defaultdict(float)
    model = ""
    try:
        for item in series(text, (*_PROGRESS, FINISHED, *_TOKENS)):
            sums[item.name] += item.value
            model = model or item.labels.get("model_name", "")
        tokens = min((int(item.value) for item in series(text, [CACHE_TOKENS])), default=0)
        ttft, tpot = histogram(text, TTFT), histogram(text, TPOT)
    except (ValueError, OverflowError):
        return None
    counts = (RUNNING, WAITING, FINISHED)
    if RUNNING not in sums or WAITING not in sums or not all(isfinite(sums.get(name, 0.0)) for name in counts):
        return None
    running = int(sums[RUNNING])
    return EngineSample(
        model=model,
        running=running,
        waiting=int(sums[WAITING]) if running else 0,
        progress=tuple(sums.get(name, 0.0) for name in _PROGRESS),
        kv_cache_tokens=tokens or None,
        finished=sums.get(FINISHED, 0.0),
        ttft=ttft,
        tpot=tpot,
        tokens=_tokens(sums),
    )


def _tokens(sums: dict[str, float]) -> TokenCounts | None:
    requests, prompt, answer, cached = (sums.get(name, 0.0) for name in _TOKENS)
    if f"{_PROMPT}_count" not in sums or not are_counts((requests, prompt, answer, cached)):
        return None
    return TokenCounts(requests, prompt, answer, looked_up=prompt, cached=cached)
