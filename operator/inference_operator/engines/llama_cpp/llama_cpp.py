"""llama.cpp as an engine: `llama-server` for one model in GGUF, of an image without Python."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from inference_operator.api.engine import EngineSpec
from inference_operator.api.engine_kind import EngineKind
from inference_operator.api.hardware import Device
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.base import OF_GPU_ENGINES, Engine
from inference_operator.engines.environment import refusal_of_variables, with_defaults
from inference_operator.engines.known_images import LLAMA_CPP_IMAGES, refusal_of_foreign_image
from inference_operator.engines.llama_cpp import memory, options
from inference_operator.engines.llama_cpp.options import IMAGES, support
from inference_operator.engines.options import rules_of
from inference_operator.engines.process import FRONT, EngineProcess, Front, ServedModel, Timeouts
from inference_operator.engines.start_log import known_errors, phases_of
from inference_operator.engines.telemetry import EngineSeries, MetricsPage
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.checkpoint import WeightFormat
from inference_operator.quantity import value
from inference_operator.settings import Settings
from inference_operator.sizing.fitting import LEAST_CONTEXT
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape
from inference_operator.text_tables import text_of

ERRORS = known_errors(__package__, "errors")

PORT = 8000
IDLE_SECONDS = 5
"""How long the server keeps an idle connection (cpp-httplib, `CPPHTTPLIB_KEEPALIVE_TIMEOUT_SECOND`)."""
THREADS_PER_SLOT, LEAST_THREADS = 8, 128
"""Connections at once: each has a thread, also while it is idle. Each router process keeps up to one for each slot, and
probes need some."""
END_SECONDS = 40
"""From SIGTERM to the end of the process: it waits 30 s for streams that a client does not end (measured)."""
API_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/models")
"""Inference routes (llama.cpp 0.7.0, tools/server/server.cpp). Routers answer the last one. The others show or change
the server's state, or read files."""
RUNNING, WAITING = "llamacpp:requests_processing", "llamacpp:requests_deferred"
STEPS = "llamacpp:n_decode_total"
"""Metrics (tools/server/server-context.cpp): requests in slots and before them, and forward passes since the start."""
PRE_STOP = text_of(__package__, "pre_stop.sh")
_BASH = "/bin/bash"
"""By its path, since a variable of the user may name other folders."""
_CUDA = "nvidia.com/"


@dataclass(frozen=True, slots=True)
class LlamaCpp(Engine):
    unsupported_fields = OF_GPU_ENGINES | {"dtype"}
    """Fields that the server has no option for, or that a GGUF file decides itself."""
    divides_models = True
    option_classes = options.CLASSES
    option_rules = tuple(rules_of(options.OPTIONS.by_name.values()))
    formats = frozenset({WeightFormat.GGUF})
    requires_facts = True
    """The name of the file is an argument."""
    can_ask_for_key = False
    """`--api-key` asks on the page of metrics too, and not on `/v1/models` (0.7.0, tools/server)."""
    errors, phases = ERRORS, phases_of(__package__)
    metrics_page = MetricsPage(idle_seconds=IDLE_SECONDS)
    series = EngineSeries(running=RUNNING, waiting=WAITING)
    steps = STEPS

    cpu_needs = staticmethod(memory.cpu_needs)
    support = staticmethod(support)

    port: int = PORT

    def check(self, spec: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:
        return (
            refusal_of_foreign_image(image, LLAMA_CPP_IMAGES)
            or options.OPTIONS.refusal(spec.args)
            or options.refusal_of_own_variables(spec.env)
            or refusal_of_variables(
                spec.env,
                managed=options.MANAGED_VARIABLES,
                dangerous=options.DANGEROUS_VARIABLES,
                allowed=settings.allowed_environment,
            )
        )

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> memory.OnGpus:  # noqa: ARG002 - protocol
        return memory.OnGpus(offer.memory_gib, reported_gib)

    def image(self, device: Device, settings: Settings) -> str:
        return settings.engine_image(EngineKind.LLAMA_CPP, device, IMAGES[device])

    def process(
        self, spec: EngineSpec, plan: Plan, served: ServedModel, timeouts: Timeouts, at: Front = FRONT
    ) -> EngineProcess:
        defaults = {**self.environment, options.PRE_STOP_VARIABLE: PRE_STOP}
        model = (f"--model={served.folder}/{plan.model_file}", f"--alias={served.name}")
        address = (f"--host={at.host}", f"--port={self.port}")
        return EngineProcess(
            command=(),
            args=tuple(options.separated((*model, *_options(spec, plan), *address, *spec.args))),
            env=with_defaults(spec.env, defaults),
            port=self.port,
            max_concurrency=_sizes(plan).slots,
            model_names=served.names,
            api_paths=API_PATHS,
            lists_models=False,
            writable=self.writable,
            startup_seconds=timeouts.startup,
            pre_stop=_pre_stop(timeouts, self.port),
            stop_seconds=timeouts.dns_staleness + timeouts.drain + END_SECONDS,
            prefix_cure="No argument ends that: each request may ask for the cache with `cache_prompt`.",
        )

    def check_model(self, spec: EngineSpec, model: ModelSpec, *, cached: bool) -> Refusal | None:  # noqa: ARG002 - protocol
        if cached or not model.source.startswith("hf://"):
            return None
        problem = "llama.cpp would download any revision of the model itself."
        cure = "Set `spec.cache`, so that the operator downloads it, or use a `pvc://` or `oci://` source."
        return Refusal(Reason.INVALID_SPEC, "spec.cache", problem, cure)


def _sizes(plan: Plan) -> memory.Sizes:
    slots = memory.SLOTS_ON_GPUS if plan.device is Device.GPU else memory.SLOTS_ON_CPUS
    shape = Shape(
        context=plan.max_model_len, max_num_seqs=plan.max_num_seqs, max_num_batched_tokens=plan.max_num_batched_tokens
    )
    return memory.Sizes.of(shape, LEAST_CONTEXT, slots)


def _options(spec: EngineSpec, plan: Plan) -> Iterator[str]:
    """The options that follow from the specification and the plan.

    Nothing adjusts the sizes (`--fit`), and no memory is taken beside the KV cache (`--cache-ram`, checkpoints).
    """
    sizes = _sizes(plan)
    threads = max(LEAST_THREADS, THREADS_PER_SLOT * sizes.slots)
    yield f"--ctx-size={sizes.cached_tokens}"
    yield f"--parallel={sizes.slots}"
    yield f"--batch-size={plan.max_num_batched_tokens or memory.LOGICAL_BATCH}"
    yield f"--ubatch-size={sizes.batch}"
    yield from ("--no-kv-unified", "--fit=off", "--cache-ram=0", "--ctx-checkpoints=0")
    yield from ("--metrics", "--no-slots", "--no-ui", "--no-cors-credentials", f"--threads-http={threads}")
    if limit := spec.resources.limits.get("cpu"):
        yield f"--threads={ceil(value(limit))}"
    yield from _devices(plan)


def _devices(plan: Plan) -> Iterator[str]:
    """The devices by name, so that the server ends where it does not see them, and does not compute on CPUs."""
    if plan.device is Device.CPU:
        yield from ("--device=none", "--gpu-layers=0")
        return
    yield "--gpu-layers=all"
    if plan.resource.startswith(_CUDA):
        yield f"--device={','.join(f'CUDA{number}' for number in range(plan.gpus_per_replica))}"


def _pre_stop(timeouts: Timeouts, port: int) -> tuple[str, ...]:
    """The hook, without the user's variables: SHELLOPTS with PS4, and exported functions, would run code in bash.

    `-p` ignores them (bash 5.2, "Invoking bash"), and `exec -c` starts the program with an empty environment.
    """
    numbers = (str(number) for number in (port, timeouts.dns_staleness, timeouts.drain))
    start = f'exec -c {_BASH} -c "${options.PRE_STOP_VARIABLE}" "$0" "$@"'
    return (_BASH, "-p", "-c", start, "pre_stop", *numbers)
