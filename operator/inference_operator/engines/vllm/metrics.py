"""What vLLM calls its metrics (vllm-project/vllm v0.32.0, vllm/v1/metrics/loggers.py), and what they mean."""

from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

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


def engine_sample(text: str) -> EngineSample | None:
    r"""Read vLLM's metrics, summed over its cores; None where they do not tell of its work.

    Examples:
        >>> engine_sample("python_info 1.0\n") is None
        True
    """
    sums, model = _sums(_wanted(text))
    if REQUESTS_RUNNING not in sums or REQUESTS_WAITING not in sums:
        return None
    return EngineSample(
        model=model,
        running=int(sums[REQUESTS_RUNNING]),
        waiting=int(sums[REQUESTS_WAITING]),
        progress=tuple(sums.get(name, 0.0) for name in _PROGRESS),
    )


def _wanted(text: str) -> str:
    """The lines that are read. To parse all of it takes fifty times as long: most of it are buckets of histograms."""
    return "".join(line for name in dict.fromkeys(_PROGRESS) for line in _lines(text, f"\n{name}{{"))


def _lines(text: str, beginning: str) -> Iterator[str]:
    at = text.find(beginning)
    while at >= 0:
        end = text.find("\n", at + 1)
        yield f"{text[at + 1 : end if end >= 0 else None]}\n"
        at = text.find(beginning, at + 1)


def _sums(text: str) -> tuple[Mapping[str, float], str]:
    sums: dict[str, float] = {}
    model = ""
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
                model = sample.labels.get("model_name", model)
    except ValueError:
        return {}, ""
    return sums, model
