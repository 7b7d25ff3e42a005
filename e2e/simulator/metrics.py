"""The metrics of vLLM 0.32, with the values of the simulation; what it does not simulate stays zero."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from e2e.simulator.batch import BLOCK_TOKENS
from e2e.simulator.options import Options

if TYPE_CHECKING:
    from e2e.simulator.engine import Request

# Buckets and labels: vLLM 0.32.0, `v1/metrics/loggers.py`.
TTFT_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_SECONDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_SECONDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
ITERATION_TOKENS = tuple(float(2**power) for power in (0, *range(3, 15)))
SLEEP_STATES = ("awake", "weights_offloaded", "discard_all")
WAITING_REASONS = ("capacity", "deferred")
SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
FINISHED = ("stop", "length", "abort", "error", "repetition")
REJECTED = ("max_num_queued_reqs", "max_num_queued_tokens")

M = TypeVar("M", bound=MetricWrapperBase)


class Metrics:
    """All metrics of one engine, in a registry of their own."""

    def __init__(self, options: Options) -> None:
        self.registry = CollectorRegistry()
        self._labels = {"engine": "0", "model_name": options.names[0]}
        self._gauges()
        self._counters()
        self._histograms(options.max_model_len)
        for name in ("estimated_flops", "estimated_read_bytes", "estimated_write_bytes"):
            self._one(Counter, f"{name}_per_gpu")
        for name in (
            "external_prefix_cache_queries",
            "external_prefix_cache_hits",
            "mm_cache_queries",
            "mm_cache_hits",
        ):
            self._one(Counter, name)
        self._config(options)

    def text(self) -> bytes:
        """The page of `/metrics`."""
        return generate_latest(self.registry)

    def gauge(self, running: int, waiting: int, used: float) -> None:
        """Set what an autoscaler reads."""
        self.running.set(running)
        self.waiting.set(waiting)
        self.waiting_by_reason["capacity"].set(waiting)
        self.kv_cache.set(used)

    def note_admitted(self, request: "Request") -> None:
        """Count a prompt that starts to be computed."""
        cached = request.sequence.cached
        self.queries.inc(request.sequence.prompt)
        self.hits.inc(cached)
        self.prompt_tokens.inc(request.sequence.prompt)
        self.by_source["local_compute"].inc(request.sequence.prompt - cached)
        self.by_source["local_cache_hit"].inc(cached)
        self.cached.inc(cached)
        self.by_tier["device"].inc(cached)

    def note_first(self, request: "Request") -> None:
        """Observe a first token."""
        self.ttft.observe(request.first - request.arrived)

    def note_done(self, request: "Request", reason: str) -> None:
        """Count an answer that has ended."""
        self.finished[reason].inc()
        if not request.first:
            return
        sequence, end = request.sequence, request.latest
        self.of_prompts.observe(sequence.prompt)
        self.of_answers.observe(sequence.generated)
        self.most_answers.observe(sequence.generated)
        self.params_n.observe(1)
        self.params_max.observe(request.params_max_tokens)
        self.preempted.observe(sequence.preemptions)
        self.kv_computed.observe(sequence.prompt - sequence.cached)
        self.latency.observe(end - request.arrived)
        self.queue_time.observe(request.admitted - request.arrived)
        self.prefill_time.observe(request.first - request.admitted)
        self.decode_time.observe(end - request.first)
        self.inference_time.observe(end - request.admitted)
        if sequence.generated > 1:
            self.per_token.observe((end - request.first) / (sequence.generated - 1))

    def _gauges(self) -> None:
        self.running = self._one(Gauge, "num_requests_running")
        self.waiting = self._one(Gauge, "num_requests_waiting")
        self.waiting_by_reason = self._each(Gauge, "num_requests_waiting_by_reason", "reason", WAITING_REASONS)
        self.kv_cache = self._one(Gauge, "kv_cache_usage_perc")
        self._each(Gauge, "engine_sleep_state", "sleep_state", SLEEP_STATES)["awake"].set(1)

    def _counters(self) -> None:
        self.queries = self._one(Counter, "prefix_cache_queries")
        self.hits = self._one(Counter, "prefix_cache_hits")
        self.preemptions = self._one(Counter, "num_preemptions")
        self.prompt_tokens = self._one(Counter, "prompt_tokens")
        self.by_source = self._each(Counter, "prompt_tokens_by_source", "source", SOURCES)
        self.cached = self._one(Counter, "prompt_tokens_cached")
        self.by_tier = self._each(Counter, "prompt_tokens_cached_by_source", "source", TIERS)
        self.generated = self._one(Counter, "generation_tokens")
        self.finished = self._each(Counter, "request_success", "finished_reason", FINISHED)
        rejections = Counter(
            "vllm:admission_rejections", "As vLLM's.", ["model_name", "reason"], registry=self.registry
        )
        self.rejected = {r: rejections.labels(model_name=self._labels["model_name"], reason=r) for r in REJECTED}

    def _histograms(self, longest: int) -> None:
        tokens = tuple(_one_two_five(longest))
        self.of_prompts = self._histogram("request_prompt_tokens", tokens)
        self.of_answers = self._histogram("request_generation_tokens", tokens)
        self.iteration_tokens = self._histogram("iteration_tokens_total", ITERATION_TOKENS)
        self.most_answers = self._histogram("request_max_num_generation_tokens", tokens)
        self.params_n = self._histogram("request_params_n", (1, 2, 5, 10, 20))
        self.params_max = self._histogram("request_params_max_tokens", tokens)
        self.kv_computed = self._histogram("request_prefill_kv_computed_tokens", tokens)
        self.preempted = self._histogram("request_num_preemptions", (1, 2, 3, 4, 5, 10, 20))
        self.ttft = self._histogram("time_to_first_token_seconds", TTFT_SECONDS)
        self.inter_token = self._histogram("inter_token_latency_seconds", TOKEN_SECONDS)
        self.per_token = self._histogram("request_time_per_output_token_seconds", TOKEN_SECONDS)
        self.latency = self._histogram("e2e_request_latency_seconds", REQUEST_SECONDS)
        self.queue_time = self._histogram("request_queue_time_seconds", REQUEST_SECONDS)
        self.inference_time = self._histogram("request_inference_time_seconds", REQUEST_SECONDS)
        self.prefill_time = self._histogram("request_prefill_time_seconds", REQUEST_SECONDS)
        self.decode_time = self._histogram("request_decode_time_seconds", REQUEST_SECONDS)

    def _config(self, options: Options) -> None:
        blocks = options.kv_cache_tokens // BLOCK_TOKENS
        values = {"block_size": BLOCK_TOKENS, "num_gpu_blocks": blocks, "enable_prefix_caching": options.prefix_cache}
        labels = {"engine": "0", **{name: str(value) for name, value in values.items()}}
        info = Gauge(
            "vllm:cache_config_info", "As vLLM's, with these labels only.", list(labels), registry=self.registry
        )
        info.labels(**labels).set(1)

    def _one(self, kind: type[M], name: str) -> M:
        return kind(f"vllm:{name}", "As vLLM's.", list(self._labels), registry=self.registry).labels(**self._labels)

    def _each(self, kind: type[M], name: str, label: str, values: tuple[str, ...]) -> dict[str, M]:
        metric = kind(f"vllm:{name}", "As vLLM's.", [*self._labels, label], registry=self.registry)
        return {value: metric.labels(**self._labels, **{label: value}) for value in values}

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        names = list(self._labels)
        metric = Histogram(f"vllm:{name}", "As vLLM's.", names, buckets=buckets, registry=self.registry)
        return metric.labels(**self._labels)


def _one_two_five(longest: int) -> Iterator[float]:
    """Buckets 1, 2, 5, 10, … up to the longest answer."""
    magnitude = 1
    while True:
        for digit in (1, 2, 5):
            if digit * magnitude > longest:
                return
            yield float(digit * magnitude)
        magnitude *= 10
