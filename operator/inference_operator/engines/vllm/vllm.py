"""vLLM as an engine: command line, environment, probes and stop of its process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from inference_operator.api.engine import EngineSpec
from inference_operator.api.model import ModelSpec
from inference_operator.api.refusal import Refusal
from inference_operator.engines.base import Engine
from inference_operator.engines.environment import with_defaults
from inference_operator.engines.group.launch import GROUP_PROGRAMS, group_drain, group_member, stop_limit
from inference_operator.engines.known_images import VLLM_IMAGES, refusal_of_foreign_image
from inference_operator.engines.kv_transfer import KVTransfer, TransferRole
from inference_operator.engines.model_access import offline_variables, with_token
from inference_operator.engines.process import FRONT, EngineProcess, Front, Parsers, ServedModel, Timeouts
from inference_operator.engines.programs import (
    CHECK_PROGRAMS,
    KEY_FILE,
    NO_MIDDLEWARE,
    checked_start,
    guard_of,
    program_command,
)
from inference_operator.engines.telemetry import MetricsPage
from inference_operator.engines.vllm import (
    architectures,
    arguments,
    groups,
    long_context,
    memory,
    memory_flags,
    speculation,
)
from inference_operator.engines.vllm.adapters import RUNTIME_ADAPTERS, adapter_loader, adapter_programs
from inference_operator.engines.vllm.advisories import notice_of_advisories
from inference_operator.engines.vllm.disaggregation import REQUESTS, refusal_of_transfer, transfer_start
from inference_operator.engines.vllm.imported import imported_arguments
from inference_operator.engines.vllm.metrics import LOAD, REQUESTS_RUNNING, REQUESTS_WAITING, SERIES, engine_sample
from inference_operator.engines.vllm.named_code import refusal_of_named_code
from inference_operator.engines.vllm.option_classes import CLASSES, RULES
from inference_operator.engines.vllm.options import VERSION, value_of
from inference_operator.engines.vllm.parsers import parser_arguments, parsers_of, refusal_of_parsers
from inference_operator.engines.vllm.precision import RECIPE_CACHES, refusal_of_precision
from inference_operator.engines.vllm.request_limits import ENVIRONMENT as MEDIA_ENVIRONMENT
from inference_operator.engines.vllm.request_limits import MAX_N, generation_arguments, media_arguments
from inference_operator.engines.vllm.start_log import ERRORS, HINTS, LOADED, phase, shortage
from inference_operator.engines.vllm.traits import refusal_of_runner, remark_of_ranking, served_facts
from inference_operator.engines.vllm_image import HOME, WRITABLE, default_image, gpu_needs, version_of_image
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.checkpoint import WeightFormat
from inference_operator.models.facts import ModelFacts
from inference_operator.sentences import sentences
from inference_operator.settings import Settings
from inference_operator.sizing.cpu import CpuNeeds, cpu_needs
from inference_operator.sizing.paged import PagedEngine
from inference_operator.sizing.plan import Drafting, Plan
from inference_operator.sizing.shape import Shape
from inference_operator.text_tables import text_of

SHUTDOWN_SECONDS = 10
"""`--shutdown-timeout`: how long vLLM continues after SIGTERM (since 0.18; 0 aborts requests at once). The pre-stop
hook has waited for all requests by then. One may still arrive between its last check and the signal."""
PRE_STOP = "pre_stop"
PROGRAMS = {**CHECK_PROGRAMS, PRE_STOP: text_of(__package__, "pre_stop.py")}
ENGINE_READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
"""How long vLLM's API process waits for its engine core. The default of 600 s is too short for a large model (0.32.0,
vllm/envs.py)."""
SERVE = ("vllm", "serve")
PORT = 8000
MAX_NUM_QUEUED_REQS = "--max-num-queued-reqs"
"""Unfinished requests, running and waiting, above which vLLM answers 503 (0.32.0, vllm/config/scheduler.py)."""
MAX_NUM_QUEUED_REQS_SINCE = (0, 32)
"""The first version that is known to have it. An earlier one would not start."""
QUEUED_PER_SEQUENCE = 32
"""Unfinished requests for each sequence of a batch. Routers send at most one for each sequence and HAProxy process, and
16 router pods have 32 processes. So only a client that bypasses the routers, or one with many choices (`n`) for each
request, can reach the limit."""
COMPILED = f"{HOME}/.cache"
"""Folder of all that vLLM and its libraries compile. FlashInfer's is below it in the home (0.6, `jit/env.py`)."""
IDLE_SECONDS = 3600
"""How long vLLM keeps an idle connection: as long as a request of a client may take (`STREAM_SECONDS` of routers)."""

ENVIRONMENT = {
    "HOME": HOME,
    "USER": "vllm",  # getpass fails for a uid without an entry in /etc/passwd
    "XDG_CACHE_HOME": f"{HOME}/.cache",
    "XDG_CONFIG_HOME": f"{HOME}/.config",
    "HF_HOME": f"{HOME}/.cache/huggingface",
    "VLLM_CACHE_ROOT": f"{HOME}/.cache/vllm",
    "VLLM_CONFIG_ROOT": f"{HOME}/.config/vllm",
    "TRITON_CACHE_DIR": f"{HOME}/.cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{HOME}/.cache/torchinductor",
    # uvicorn closes idle connections after 5 s by default, possibly just when a router sends a request on one.
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(IDLE_SECONDS),
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    **MEDIA_ENVIRONMENT,
}
"""Puts every cache into a writable path (vLLM 0.32.0, vllm/envs.py), and turns usage reports to third parties and
redirects of media off."""

API_PATHS = (
    *("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/models"),
    *("/v1/rerank", "/v1/score", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/realtime", "/v2/embed"),
    *("/v2/rerank", "/cohere/v2/chat", "/rerank", "/score", "/pooling", "/classify", "/tokenize", "/detokenize"),
)
"""Inference routes of vLLM 0.32.0 (`vllm/entrypoints`). The others need no key in vLLM: metrics, documentation, loading
of adapters, and control of the engine, such as `/sleep`, `/pause` and `/update_weights`."""


@dataclass(frozen=True, slots=True)
class Vllm(Engine):
    divides_models = True
    runs_over_nodes = True
    """With as many processes on each of several nodes (`--nnodes`)."""
    option_classes = CLASSES
    option_rules = RULES
    formats = frozenset({WeightFormat.SAFETENSORS, WeightFormat.PICKLE})
    """Pickle files with consent. For GGUF vLLM needs a plugin that its images lack."""
    needs_inspection = False
    can_transfer = True
    can_ask_for_key = True
    """Its server takes middleware. Its own `--api-key` leaves many paths open."""
    code_paths = ("-packages/vllm/",)
    """Caches have a folder `vllm` too."""
    errors, startup_hints, loaded = ERRORS, HINTS, LOADED
    metrics_page = MetricsPage(idle_seconds=IDLE_SECONDS)
    series, load_series = SERIES, LOAD

    environment, writable, compiled = ENVIRONMENT, WRITABLE, COMPILED

    check_member = staticmethod(groups.refusal_of_member)
    check_transfer = staticmethod(refusal_of_transfer)
    check_data_parallel = staticmethod(groups.refusal_of_own_batches)
    imported = staticmethod(imported_arguments)
    gpu_needs = staticmethod(gpu_needs)
    shape = staticmethod(memory_flags.shape_of)
    support = staticmethod(architectures.support)
    config_overrides = staticmethod(long_context.config_overrides)
    parsers = staticmethod(parsers_of)
    image = staticmethod(default_image)
    advisories = staticmethod(notice_of_advisories)
    shortage = staticmethod(shortage)
    phase = staticmethod(phase)
    sample = staticmethod(engine_sample)

    port: int = PORT

    def check(self, spec: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:
        return (
            refusal_of_foreign_image(image, VLLM_IMAGES)
            or arguments.refusal_of_args(spec.args, image=image, allowed=settings.allowed_arguments)
            or refusal_of_named_code(spec.args, allowed=settings.allowed_arguments)
            or memory_flags.refusal_of_cache_bytes(spec.args)
            or memory_flags.refusal_of_batches(spec)
            or memory_flags.refusal_of_slots(spec)
            or memory_flags.refusal_of_offload(spec)
            or refusal_of_parsers(spec, image=image)
            or arguments.refusal_of_traces(spec.args)
            or arguments.refusal_of_env(spec.env, allowed=settings.allowed_environment)
        )

    def as_served(self, facts: ModelFacts, spec: EngineSpec, model: str = "") -> ModelFacts:
        """The facts with the kind of runner, whether states are missing, and the KV cache that a recipe sets."""
        served = long_context.extended_facts(served_facts(facts, spec.args), spec.rope_scaling)
        return replace(served, recipe_cache=RECIPE_CACHES.get(model, ""))

    def resolved(self, spec: EngineSpec, facts: ModelFacts | None, model: str) -> EngineSpec | Refusal:
        found = speculation.resolved(spec.speculative, facts, model, spec.profile)
        return found if isinstance(found, Refusal) else spec.model_copy(update={"speculative": found})

    def drafting(self, spec: EngineSpec) -> Drafting | None:
        return speculation.drafting_of(spec.speculative)

    def remark(self, facts: ModelFacts, spec: EngineSpec, model: str) -> str:
        return sentences(
            remark_of_ranking(facts, spec.args, model), speculation.remark_of_speculation(spec, facts, model)
        )

    def check_request(self, spec: EngineSpec, facts: ModelFacts, shape: Shape, *, image: str) -> Refusal | None:
        draft = shape.speculation.draft_facts if shape.speculation else None
        return (
            refusal_of_precision(spec, facts, image=image)
            or long_context.refusal_of_scaling(spec, facts)
            or refusal_of_runner(facts, spec.args)
            or memory_flags.refusal_of_cache_options(facts, spec.args)
            or speculation.refusal_of_speculation(spec, facts, draft)
        )

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> PagedEngine:
        version, gib = version_of_image(image), offer.memory_gib
        found = memory.vllm_memory(version, memory_gib=gib, product=offer.kind, capability=offer.capability)
        engine, overhead = found.with_reported(reported_gib), memory.step_overhead(version)
        return PagedEngine(offer, engine, overhead, architectures.SUPPORT, architectures.ENCODERS)

    def cpu_needs(self, facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
        return cpu_needs(facts, memory.vllm_cpu_memory(latent=facts is not None and facts.uses_mla), shape)

    def doubt_of_tables(self, image: str) -> str:
        """Only of images that name their version; others are taken for the tables' own."""
        version = version_of_image(image)
        if memory.version_of(version or VERSION) == memory.version_of(VERSION):
            return ""
        return (
            f"The image has vLLM {version}: which models, data types and GPUs go together is taken from vLLM {VERSION},"
            " and may differ."
        )

    def process(
        self, spec: EngineSpec, plan: Plan, served: ServedModel, timeouts: Timeouts, at: Front = FRONT
    ) -> EngineProcess:
        sequences = plan.parallel.data * (plan.max_num_seqs or memory.default_sequences(plan))
        member = group_member(plan.parallel.nodes)
        apart = transfer_start(at.transfer, sequences=sequences, ranks=plan.parallel.data // plan.parallel.nodes)
        defaults = {**ENVIRONMENT, **_computed(spec, served, timeouts), **apart.variables}
        managed = self._managed(spec, plan, served, at, sequences)
        commit = arguments.commit_arguments(spec.args, served.commit or served.revision or "")
        guard = guard_of(served.name) if at.asks_for_key else NO_MIDDLEWARE
        serve = checked_start((*apart.command, *guard.command, *SERVE), plan)
        return EngineProcess(
            command=groups.grouped(serve, plan, timeouts, port=self.port, stop_seconds=SHUTDOWN_SECONDS),
            args=(served.model, *managed, *spec.args, *commit, *apart.options, *guard.options),
            env=with_token(with_defaults(spec.env, defaults), served.token),
            port=self.port,
            max_concurrency=sequences,
            model_names=served.names,
            api_paths=API_PATHS,
            writable=self.writable,
            startup_seconds=timeouts.startup,
            programs={
                **PROGRAMS,
                **adapter_programs(spec),
                **(GROUP_PROGRAMS if member else {}),
                **apart.programs,
                **guard.programs,
            },
            adapter_loader=adapter_loader(spec, self.port, member, key_file=KEY_FILE if at.asks_for_key else ""),
            member=member,
            pre_stop=group_drain(timeouts) if member else _pre_stop(timeouts, self.port, at.transfer),
            stop_seconds=stop_limit(timeouts, SHUTDOWN_SECONDS, member),
            compiled=self.compiled,
            prefix_cure=_prefix_cure(spec.args),
            transfer=at.transfer,
        )

    def _managed(self, spec: EngineSpec, plan: Plan, served: ServedModel, at: Front, sequences: int) -> Iterator[str]:
        yield from (*_served_names(served), f"--host={at.host}", f"--port={self.port}")
        yield f"--tensor-parallel-size={plan.parallel.tensor}"
        yield from groups.data_arguments(plan.parallel)
        yield from memory_flags.memory_arguments(spec, plan)
        yield from speculation.speculation_arguments(plan.drafting)
        if plan.whole_encoder and value_of(spec.args, architectures.ENCODER_MODE) is None:
            yield f"{architectures.ENCODER_MODE}={architectures.DATA}"
        yield from parser_arguments(spec, Parsers(plan.tool_call_parser, plan.reasoning_parser))
        yield from generation_arguments(spec.generation)
        if plan.config_overrides:
            yield f"{long_context.HF_OVERRIDES}={plan.config_overrides}"
        yield from architectures.implementation_arguments(spec.args, plan.implementation)
        yield from media_arguments(spec.multimodal.allowed_domains, version_of_image(spec.image or ""))
        yield f"--shutdown-timeout={SHUTDOWN_SECONDS}"
        yield from _queue_arguments(spec, sequences)
        yield from arguments.traces_arguments(spec.args, at.traces)

    def check_model(self, spec: EngineSpec, model: ModelSpec, *, cached: bool) -> Refusal | None:
        return (
            arguments.refusal_of_remote_code(spec.args, model)
            or arguments.refusal_of_pickle(spec.args, model)
            or speculation.refusal_of_draft(spec, model, cached=cached)
            or (arguments.refusal_of_cached(spec) if cached else None)
        )


def _computed(spec: EngineSpec, served: ServedModel, timeouts: Timeouts) -> Mapping[str, str]:
    limits = {ENGINE_READY_TIMEOUT: str(timeouts.startup), MAX_N: str(spec.generation.max_n)}
    adapters = {RUNTIME_ADAPTERS: "1"} if spec.adapter_slots else {}
    return {**limits, **offline_variables(served.hub_cache), **adapters}


def _queue_arguments(spec: EngineSpec, sequences: int) -> Iterator[str]:
    version = memory.version_of(version_of_image(spec.image or ""))
    knows = version is not None and version >= MAX_NUM_QUEUED_REQS_SINCE
    if knows and value_of(spec.args, MAX_NUM_QUEUED_REQS) is None:
        yield f"{MAX_NUM_QUEUED_REQS}={QUEUED_PER_SEQUENCE * sequences}"


def _prefix_cure(args: Sequence[str]) -> str:
    """What keeps users apart while prefix caching is on."""
    if not memory_flags.caches_prefixes(args):
        return ""
    return "Let each user send an own, secret `cache_salt` with all requests, or set `--no-enable-prefix-caching`."


def _served_names(served: ServedModel) -> tuple[str, ...]:
    """The names of the model in the API. The first is the label of vLLM's metrics (0.32.0, `v1/metrics/loggers.py`)."""
    first, *more = served.names
    return ("--served-model-name", first, *more) if more else (f"--served-model-name={first}",)


def _pre_stop(timeouts: Timeouts, port: int, transfer: KVTransfer | None) -> tuple[str, ...]:
    decodes = transfer is not None and transfer.role is TransferRole.DECODE
    numbers = (str(number) for number in (port, timeouts.dns_staleness, timeouts.drain))
    return (*program_command(PRE_STOP), *numbers, REQUESTS_RUNNING, REQUESTS_WAITING, *((REQUESTS,) if decodes else ()))
