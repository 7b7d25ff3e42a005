"""What vLLM calls its metrics (vllm-project/vllm v0.32.0, vllm/v1/metrics/loggers.py), and what they mean."""

import re
from collections.abc import Iterator, Sequence

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from inference_operator.observed.samples import EngineSample

REQUESTS_RUNNING = "vllm:num_requests_running"
"""Requests that are being computed."""

REQUESTS_WAITING = "vllm:num_requests_waiting"
"""Requests that have arrived and are not computed yet."""

_PROGRESS = (
    "vllm:iteration_tokens_total_count",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:kv_cache_usage_perc",
    REQUESTS_RUNNING,
    REQUESTS_WAITING,
)
"""What the engine's core sends with its steps. Counters alone would not do: a step that computes a part of a long
prompt has no output, and then the API process counts no iteration (vLLM 0.32.0, vllm/v1/engine/async_llm.py,
output_handler); the KV cache fills nevertheless. All of it stands still when the core does, while the API process goes
on showing it."""


CACHE_INFO = "vllm:cache_config_info"
"""The configuration of the KV cache, as labels; it is there once the cache has been made."""

CACHE_TOKENS = re.compile(r'[{,]kv_cache_size_tokens="(\d{1,15})"')
"""Its label for what vLLM logs as "GPU KV cache size", on every device; more digits are no number of tokens."""


def engine_sample(text: str) -> EngineSample | None:
    r"""Read vLLM's metrics, summed over its cores; None where they do not tell of its work.

    Examples:
        >>> engine_sample("python_info 1.0\n") is None
        True
    """
    samples = _samples(_wanted(text))
    sums: dict[str, float] = {}
    for sample in samples:
        sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    if REQUESTS_RUNNING not in sums or REQUESTS_WAITING not in sums:
        return None
    return EngineSample(
        model=next((sample.labels["model_name"] for sample in samples if "model_name" in sample.labels), ""),
        running=int(sums[REQUESTS_RUNNING]),
        waiting=int(sums[REQUESTS_WAITING]),
        progress=tuple(sums.get(name, 0.0) for name in _PROGRESS),
        kv_cache_tokens=_cache_tokens(text),
    )


def _wanted(text: str) -> str:
    """The lines that are read. To parse all of it takes fifty times as long: most of it are buckets of histograms."""
    return "".join(line for name in _PROGRESS for line in _lines(text, name))


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
    """Of the first core: all cores of an engine are alike. None where its version does not tell.

    The line has forty labels, of which one is read: to parse them all takes as long as everything else.
    """
    told = CACHE_TOKENS.search(next(_lines(text, CACHE_INFO), ""))
    return int(told[1]) if told else None
