"""The figures that an engine shows about itself: where they are, what they are called, and how they are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from inference_operator.engines.series import series


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """Where an engine serves its metrics, in Prometheus' text format."""

    path: str = "/metrics"
    port: int | None = None
    """TCP port; None: that of the API."""
    idle_seconds: float = 5.0
    """How long its server keeps an idle connection; uvicorn's default (`--timeout-keep-alive`)."""


@dataclass(frozen=True, slots=True)
class EngineSeries:
    """The names of an engine's series for the figures that all engines are asked for; empty where it has none."""

    running: str = ""
    waiting: str = ""
    """Gauge of requests in its queue."""
    finished: str = ""
    """Counter of requests that it has answered."""
    kv_cache_usage: str = ""
    """Gauge of the used part of the KV cache, from 0 to 1."""
    first_token: str = ""
    """Histogram of the seconds from a request's arrival at the engine to its first token."""
    inter_token: str = ""
    """Histogram of the seconds between two tokens of an answer."""
    former: Mapping[str, str] = field(default_factory=dict)
    """Names in earlier versions that may still run, by today's names."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    running: int
    waiting: int
    cache_usage: float
    preemptions: int
    """Requests since its start whose KV cache was dropped for others, so that they were computed again."""
    answered: int
    generated: int | None = None
    """Tokens of answers since its start, those of running requests included; None if it does not count them."""


def engine_load(text: str, names: Sequence[str]) -> EngineLoad | None:
    """The load by the series of these names: one for each field of `EngineLoad`, in their order.

    It is summed over the processes of an engine; the used part of the KV cache is that of the fullest. None without
    numbers of requests, and with sums that are no numbers: NaN and infinities are legal in the format.
    """
    values: dict[str, list[float]] = {name: [] for name in names}
    try:
        for item in series(text, names):
            values[item.name].append(item.value)
    except ValueError:
        return None
    running, waiting, usage, preemptions, answered, generated = values.values()
    if not running or not waiting or not all(isfinite(sum(parts)) for parts in values.values()):
        return None
    return EngineLoad(
        running=int(sum(running)),
        waiting=int(sum(waiting)),
        cache_usage=max(usage, default=0.0),
        preemptions=int(sum(preemptions)),
        answered=int(sum(answered)),
        generated=int(sum(generated)) if generated else None,
    )
