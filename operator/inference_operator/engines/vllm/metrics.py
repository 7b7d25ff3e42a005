"""Prometheus metrics of vLLM that the operator reads (vllm-project/vllm v0.32.0, vllm/v1/metrics/loggers.py)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from inference_operator.engines.base import DemandMetrics, EngineLoad
from inference_operator.views.samples import EngineSample

REQUESTS_RUNNING = "vllm:num_requests_running"
"""Requests in the running batch."""

REQUESTS_WAITING = "vllm:num_requests_waiting"
"""Requests in the scheduler's queue."""

_PROGRESS = (
    "vllm:iteration_tokens_total_count",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
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

DEMAND_METRICS = DemandMetrics(running=REQUESTS_RUNNING, waiting=REQUESTS_WAITING, finished=_ANSWERED)
"""The metrics by which other autoscalers see the demand."""


def engine_load(text: str) -> EngineLoad | None:
    r"""How busy vLLM is, summed over its engine cores (KV cache usage: of the fullest); None without metrics.

    Examples:
        >>> engine_load("python_info 1.0\n") is None
        True
    """
    names = (REQUESTS_RUNNING, REQUESTS_WAITING, _CACHE_USAGE, _PREEMPTIONS, _ANSWERED)
    samples = _samples("".join(line for name in names for line in _lines(f"\n{text}", name)))
    values = {name: [sample.value for sample in samples if sample.name == name] for name in names}
    if not values[REQUESTS_RUNNING] or not values[REQUESTS_WAITING]:
        return None
    return EngineLoad(
        running=int(sum(values[REQUESTS_RUNNING])),
        waiting=int(sum(values[REQUESTS_WAITING])),
        cache_usage=max(values[_CACHE_USAGE], default=0.0),
        preemptions=int(sum(values[_PREEMPTIONS])),
        answered=int(sum(values[_ANSWERED])),
    )


def engine_sample(text: str) -> EngineSample | None:
    r"""Sample from vLLM's metrics, summed over its engine cores; None if they have no numbers of requests.

    Examples:
        >>> engine_sample("python_info 1.0\n") is None
        True
    """
    samples = _samples(_wanted(text))
    sums: dict[str, float] = {}
    for sample in samples:
        sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    if REQUESTS_RUNNING not in sums or REQUESTS_WAITING not in sums or not _are_counts(sums):
        return None
    return EngineSample(
        model=next((sample.labels["model_name"] for sample in samples if "model_name" in sample.labels), ""),
        running=int(sums[REQUESTS_RUNNING]),
        waiting=int(sums[REQUESTS_WAITING]),
        progress=tuple(sums.get(name, 0.0) for name in _PROGRESS),
        kv_cache_tokens=_cache_tokens(text),
        finished=sums.get(_ANSWERED, 0.0),
    )


def _are_counts(sums: Mapping[str, float]) -> bool:
    """Whether the numbers of requests are numbers; NaN and infinities are legal in the format."""
    return all(isfinite(sums.get(name, 0.0)) for name in (REQUESTS_RUNNING, REQUESTS_WAITING, _ANSWERED))


def _wanted(text: str) -> str:
    """The lines to parse. To parse all lines takes fifty times as long: most are buckets of histograms."""
    return "".join(line for name in (*_PROGRESS, _ANSWERED) for line in _lines(text, name))


def _lines(text: str, name: str) -> Iterator[str]:
    beginning = f"\n{name}{{"
    at = text.find(beginning)
    while at >= 0:
        end = text.find("\n", at + 1)
        yield f"{text[at + 1 : end if end >= 0 else None]}\n"
        at = text.find(beginning, at + 1)


def _samples(text: str) -> Sequence[Sample]:
    try:
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except ValueError:
        return []


def _cache_tokens(text: str) -> int | None:
    """Tokens in the KV cache of the first core, as all cores are alike; None if this version does not show it.

    A regular expression finds the one label: to parse all forty takes as long as everything else.
    """
    label = CACHE_TOKENS.search(next(_lines(text, CACHE_INFO), ""))
    return int(label[1]) if label else None
