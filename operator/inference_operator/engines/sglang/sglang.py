"""SGLang as an engine. Its servers were not run: arguments, metrics and memory are from its source.

Architectures of text models that SGLang implements itself.

`python -m e2e.engines.sglang_tables` writes the table from SGLang's own source. It leaves out models that read images
or sound: SGLang opens any `file:` URL that a request names, so that clients could read files of the pod (0.5.23,
`srt/utils/common.py`, `load_image`). An architecture that SGLang does not implement is left out because it would run
the model's own code, without being asked for it (`srt/model_loader/utils.py`, `resolve_transformers_arch`). Drafts,
encoders and diffusion are left out too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

from inference_operator.api.engine import EngineSpec
from inference_operator.api.engine_kind import EngineKind
from inference_operator.api.hardware import Device
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.base import OF_VLLM, Engine
from inference_operator.engines.environment import refusal_of_variables, with_defaults
from inference_operator.engines.known_images import SGLANG_IMAGES, refusal_of_foreign_image
from inference_operator.engines.model_access import (
    TEMPORARY,
    Support,
    offline_variables,
    refusal_of_moved_cache,
    with_token,
)
from inference_operator.engines.options import rules_of
from inference_operator.engines.process import FRONT, EngineProcess, Front, ProbeRequest, ServedModel, Timeouts
from inference_operator.engines.programs import CHECK_PROGRAMS, checked_start, program_command
from inference_operator.engines.sglang import memory, options
from inference_operator.engines.sglang.metrics import FIRST_TOKEN_BUCKETS, LOAD, SERIES, engine_sample
from inference_operator.engines.sglang.options import COMPILED, HOME, IMAGE, VERSION, gpu_needs
from inference_operator.engines.start_log import known_errors, phases_of
from inference_operator.engines.telemetry import MetricsPage
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.models.model import ELEMENT_BYTES
from inference_operator.models.quantization import named_quantization
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape, Speculation
from inference_operator.text_tables import text_of

LOADED = re.compile(r"(?:checkpoint shards|loading shards):\s+(\d{1,2})% Completed")
"""srt/model_loader/weight_utils.py, with tqdm."""
ERRORS = known_errors(__package__, "errors")

NO_PREFIX_CACHE = "--disable-radix-cache"
LAUNCH = "launch"
PROGRAMS = {**CHECK_PROGRAMS, LAUNCH: text_of(__package__, "launch.py")}
PORT = 8000
IDLE_SECONDS = 3600
"""How long the server keeps an idle connection: as long as a request of a client may take."""
END_SECONDS = 90
"""From the last answer to the end of the process: two polls of 5 s, 15 s for the schedulers, 60 s for others (0.5.23,
`srt/managers/tokenizer_manager.py`, `sigterm_watchdog`)."""

ENVIRONMENT = {
    "HOME": HOME,
    "USER": "sglang",  # getpass fails for a uid without an entry in /etc/passwd
    "XDG_CACHE_HOME": COMPILED,
    "HF_HOME": f"{COMPILED}/huggingface",
    "SGLANG_CACHE_DIR": f"{COMPILED}/sglang",
    "TRITON_CACHE_DIR": f"{COMPILED}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{COMPILED}/torchinductor",
    "SGLANG_TIMEOUT_KEEP_ALIVE": str(IDLE_SECONDS),
    # Otherwise each probe computes a token, which takes a second and longer in a full queue.
    "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false",
    "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING": "false",
}
"""Puts every cache into a writable path, and fixes the behaviour that probes and sizes rely on (0.5.23,
`srt/environ.py`)."""

API_PATHS = (
    *("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/models"),
    *("/v1/tokenize", "/v1/detokenize", "/tokenize", "/detokenize"),
)
"""Inference routes (0.5.23, `srt/entrypoints/http_server.py`). The others need no key there: they load weights and
adapters, profile, pause and empty the engine, or show its state. `/generate` takes names of files."""
FRACTION_DIGITS = 1000
"""`--mem-fraction-static` has three digits, rounded down."""
_NAMES = frozenset(text_of(__package__, f"architectures-{VERSION}.txt").splitlines())
_LOST = "SGLang has no adapters here, reads text only, and no release of the operator was tested with it on a GPU."


@dataclass(frozen=True, slots=True)
class SGLang(Engine):
    devices = frozenset({Device.GPU})
    """Its project publishes no image for CPUs."""
    unsupported_fields = OF_VLLM
    divides_models = True
    option_classes = options.CLASSES
    option_rules = tuple(rules_of(options.OPTIONS.by_name.values()))
    requires_facts = True
    """What is not known could read files, or bring code."""
    can_ask_for_key = False
    """Its `--api-key` is an argument, which everybody sees who may see the pod."""
    code_paths = ("-packages/sglang/", "/python/sglang/")
    errors, phases, loaded = ERRORS, phases_of(__package__), LOADED
    metrics_page = MetricsPage(idle_seconds=IDLE_SECONDS)
    series, load_series = SERIES, LOAD

    environment, compiled = ENVIRONMENT, COMPILED
    writable = (HOME, TEMPORARY)

    cpu_needs = staticmethod(memory.cpu_needs)
    sample = staticmethod(engine_sample)

    port: int = PORT

    def check(self, spec: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:
        return (
            refusal_of_foreign_image(image, SGLANG_IMAGES)
            or options.OPTIONS.refusal(spec.args)
            or options.refusal_of_fields(spec)
            or options.refusal_of_own_variables(spec.env, allowed=settings.allowed_environment)
            or refusal_of_variables(spec.env, managed=options.MANAGED_VARIABLES, allowed=settings.allowed_environment)
        )

    def gpu_needs(self, spec: EngineSpec, image: str) -> GpuNeeds:  # noqa: ARG002 - protocol
        return gpu_needs(image)

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> memory.SGLangOnGpus:  # noqa: ARG002 - protocol
        return memory.SGLangOnGpus(offer, reported_gib)

    def shape(self, spec: EngineSpec) -> Shape:
        drafts = Speculation(0, unknown="SGLang's speculative decoding")
        return replace(
            Engine.shape(self, spec),
            utilization=spec.gpu_memory_utilization,
            kv_cache_dtype=spec.kv_cache_dtype,
            element_bytes=ELEMENT_BYTES.get(spec.dtype),
            quantization=named_quantization(spec.quantization) if spec.quantization else None,
            attention_groups=options.attention_groups(spec.args),
            expert_parallel=options.divides_experts(spec.args),
            cpu_offload_gib=float(spec.cpu_offload_gib),
            speculation=drafts if options.has_drafts(spec.args) else None,
        )

    def image(self, device: Device, settings: Settings) -> str:
        return settings.engine_image(EngineKind.SGLANG, device, IMAGE)

    def process(
        self, spec: EngineSpec, plan: Plan, served: ServedModel, timeouts: Timeouts, at: Front = FRONT
    ) -> EngineProcess:
        defaults = {**ENVIRONMENT, **offline_variables(served.hub_cache)}
        host = "" if at.host == "::" else at.host  # uvicorn would bind `::` for IPv6 only
        arguments = (*_options(spec, plan, served), f"--host={host}", f"--port={self.port}", *spec.args)
        return EngineProcess(
            command=checked_start(program_command(LAUNCH, has_packages=True), plan),
            args=arguments,
            env=with_token(with_defaults(spec.env, defaults), served.token),
            port=self.port,
            max_concurrency=plan.max_num_seqs or memory.SEQUENCES,
            model_names=(served.name,),
            api_paths=API_PATHS,
            lists_models=False,
            writable=self.writable,
            startup_seconds=timeouts.startup,
            programs=PROGRAMS,
            pre_stop_seconds=timeouts.dns_staleness,
            stop_seconds=timeouts.dns_staleness + timeouts.drain + END_SECONDS,
            compiled=self.compiled,
            prefix_cure="" if NO_PREFIX_CACHE in spec.args else f"To end that, set `{NO_PREFIX_CACHE}`.",
        )

    def check_facts(self, facts: ModelFacts) -> Refusal | None:
        """Why a model is not served with SGLang, or None.

        1. Its config names an architecture of the table, and no other one: SGLang looks at each of them.
        2. It generates text: SGLang would serve a model that embeds or ranks texts as if it did.
        3. It has no encoder of images, video or sound.
        4. Its weights are in a format that the one loader of safetensors reads.
        """
        problem = ""
        if facts.architecture not in _NAMES or facts.other_architectures:
            problem = (
                "SGLang serves only models whose `config.json` names one architecture, of a text model that it knows."
            )
        elif facts.is_pooling:
            problem = "SGLang serves only models that generate text here, and this one embeds or ranks texts."
        elif facts.has_vision or facts.tower:
            problem = "SGLang serves only models that read nothing but text here."
        elif facts.quantization.kernel is Kernel.BITSANDBYTES:
            problem = "SGLang needs another loader for weights of bitsandbytes."
        if not problem:
            return None
        return Refusal(
            Reason.INVALID_MODEL, "spec.model.source", problem, "Use another model, or `spec.engine.kind: VLLM`."
        )

    def support(self, architecture: str, *, image: str) -> Support:  # noqa: ARG002 - protocol
        """The table holds for every image."""
        if architecture and architecture not in _NAMES:
            return Support(f"SGLang {VERSION} serves no models of the architecture `{architecture}` here.")
        return Support(lost=_LOST)

    def check_model(self, spec: EngineSpec, model: ModelSpec, *, cached: bool) -> Refusal | None:
        return options.refusal_of_name(model.served_name or "") or (
            refusal_of_moved_cache(spec.env) if cached else None
        )

    def probe_request(self, model: str) -> ProbeRequest | None:
        return ProbeRequest("/v1/completions", {"model": model, "prompt": "1", "max_tokens": 1}) if model else None


def _options(spec: EngineSpec, plan: Plan, served: ServedModel) -> Iterator[str]:
    sequences = plan.max_num_seqs or memory.SEQUENCES
    yield f"--model-path={served.model}"
    yield f"--served-model-name={served.name}"
    if revision := served.commit or served.revision:
        yield f"--revision={revision}"
    yield from ("--load-format=safetensors", "--model-impl=sglang")
    yield f"--tp-size={plan.parallel.tensor}"
    if plan.parallel.pipeline > 1:
        yield f"--pp-size={plan.parallel.pipeline}"
    if plan.max_model_len:
        yield f"--context-length={plan.max_model_len}"
    yield from _fraction(plan)
    yield f"--max-running-requests={sequences}"
    yield f"--cuda-graph-max-bs-decode={min(sequences, memory.LARGEST_GRAPH)}"
    if plan.max_num_batched_tokens:
        yield f"--chunked-prefill-size={plan.max_num_batched_tokens}"
    yield from options.field_arguments(spec)
    yield from ("--bucket-time-to-first-token", *FIRST_TOKEN_BUCKETS)
    yield from ("--enable-metrics", "--log-level=info")


def _fraction(plan: Plan) -> Iterator[str]:
    """The fraction that sizing computed with; that of the user, or SGLang's own, for GPUs that are not known."""
    sized = plan.per_gpu
    fraction = sized.requested_gib / sized.memory_gib if sized else plan.gpu_memory_utilization
    if fraction:
        yield f"--mem-fraction-static={floor(fraction * FRACTION_DIGITS + 1e-6) / FRACTION_DIGITS}"
