"""llama.cpp behind the engine protocol: `llama-server` for one model in GGUF, of an image without Python."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import ceil

from inference_operator.api.engine import EngineSpec
from inference_operator.api.engine_kind import EngineKind
from inference_operator.api.hardware import Device
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.environment import refusal_of_variables, with_defaults
from inference_operator.engines.hub_access import access_variables, bucket_keys
from inference_operator.engines.known_error import diagnosis_of
from inference_operator.engines.known_images import LLAMA_CPP_IMAGES, refusal_of_foreign_image
from inference_operator.engines.llama_cpp import memory
from inference_operator.engines.llama_cpp.architectures import support
from inference_operator.engines.llama_cpp.image import GROUP, IMAGES, TEMPORARY, USER, WRITABLE
from inference_operator.engines.llama_cpp.options import (
    CLASSES,
    DANGEROUS_VARIABLES,
    MANAGED_VARIABLES,
    OPTIONS,
    PRE_STOP_VARIABLE,
    refusal_of_own_variables,
    separated,
)
from inference_operator.engines.llama_cpp.start_log import ERRORS, phase
from inference_operator.engines.model_access import HubAccess, Support
from inference_operator.engines.process import EngineProcess, ProbeRequest, ServedModel, Timeouts
from inference_operator.engines.series import series
from inference_operator.engines.sizes import Parsers
from inference_operator.engines.start_log import Diagnosis, LoadProgress, Phase
from inference_operator.engines.telemetry import EngineLoad, EngineSeries, MetricsPage
from inference_operator.engines.validation import NO_DATA_PARALLEL, OptionClasses
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.checkpoint import WeightFormat
from inference_operator.models.facts import ModelFacts
from inference_operator.quantity import value
from inference_operator.settings import Settings
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.fitting import LEAST_CONTEXT
from inference_operator.sizing.learned import Shortage
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape
from inference_operator.views.samples import EngineSample

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

UNSUPPORTED = frozenset(
    {
        *("adapterSlots", "maxAdapterRank", "cpuOffloadGiB", "dtype", "generation", "gpuMemoryUtilization"),
        *("kvCacheDtype", "multimodal", "quantization", "reasoningParser", "toolCallParser"),
    }
)
PRE_STOP = files(__package__).joinpath("pre_stop.sh").read_text(encoding="utf-8")
"""The program of the preStop hook, for bash."""
_CUDA = "nvidia.com/"


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """llama.cpp as an engine.

    Args:
        port: TCP port of its API and of its metrics.
    """

    port: int = PORT

    def check(self, spec: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:
        """The refusal of an image of another server, or of arguments or variables that it may not get; or None."""
        return (
            refusal_of_foreign_image(image, LLAMA_CPP_IMAGES)
            or OPTIONS.refusal(spec.args)
            or refusal_of_own_variables(spec.env)
            or refusal_of_variables(
                spec.env,
                managed=MANAGED_VARIABLES,
                dangerous=DANGEROUS_VARIABLES,
                allowed=settings.allowed_environment,
            )
        )

    @property
    def unsupported_fields(self) -> frozenset[str]:
        """The fields that the server has no option for, or that a GGUF file decides itself."""
        return UNSUPPORTED

    @property
    def devices(self) -> frozenset[Device]:
        """GPUs and CPUs."""
        return frozenset(Device)

    @property
    def divides_models(self) -> bool:
        """By layers."""
        return True

    @property
    def runs_over_nodes(self) -> bool:
        """The operator runs it on one node."""
        return False

    def check_member(self, spec: EngineSpec) -> Refusal | None:  # noqa: ARG002 - protocol
        """None: it runs on one node."""
        return None

    def check_data_parallel(self, spec: EngineSpec) -> Refusal | None:  # noqa: ARG002 - protocol
        """The refusal: the operator runs it with one data parallel rank."""
        return NO_DATA_PARALLEL

    @property
    def option_classes(self) -> OptionClasses:
        """The classes of the server's options, and of the variables of its libraries."""
        return CLASSES

    def gpu_needs(self, spec: EngineSpec, image: str) -> GpuNeeds:  # noqa: ARG002 - protocol
        """Nothing is known about the images."""
        return GpuNeeds()

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> memory.OnGpus:  # noqa: ARG002 - protocol
        """The server on these GPUs."""
        return memory.OnGpus(offer.memory_gib, reported_gib)

    def cpu_needs(self, facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
        """Memory on CPUs, with a KV cache for all slots."""
        return memory.cpu_needs(facts, shape)

    def shape(self, spec: EngineSpec) -> Shape:
        """The engine part of a spec, in the types of sizing."""
        return Shape(
            context=spec.max_model_len,
            max_num_seqs=spec.max_num_seqs,
            max_num_batched_tokens=spec.max_num_batched_tokens,
        )

    def parsers(self, image: str, *, model: str, architecture: str) -> Parsers:  # noqa: ARG002 - protocol
        """None: the server finds the calls and the reasoning in an answer by the model's own template."""
        return Parsers()

    def image(self, device: Device, settings: Settings) -> str:
        """The setting `engineImages`, or the project's own image of this version."""
        return settings.engine_image(EngineKind.LLAMA_CPP, device, IMAGES[device])

    def advisories(self, image: str) -> str:  # noqa: ARG002 - protocol
        """None: no table of llama.cpp is kept."""
        return ""

    @property
    def can_ask_for_key(self) -> bool:
        """No: `--api-key` asks on the page of metrics too, and not on `/v1/models` (0.7.0, tools/server)."""
        return False

    def process(
        self,
        spec: EngineSpec,
        plan: Plan,
        served: ServedModel,
        timeouts: Timeouts,
        *,
        host: str,
        traces: str = "",  # noqa: ARG002 - protocol
        asks_for_key: bool = False,  # noqa: ARG002 - protocol
    ) -> EngineProcess:
        """The process of one engine of this plan. Its command is the entry point of the image."""
        defaults = {"HOME": TEMPORARY, PRE_STOP_VARIABLE: PRE_STOP}
        options = (*_options(spec, plan), f"--host={host}", f"--port={self.port}", *spec.args)
        return EngineProcess(
            command=(),
            args=(*separated((f"--model={served.folder}/{plan.model_file}", f"--alias={served.name}", *options)),),
            env=with_defaults(spec.env, defaults),
            user=USER,
            group=GROUP,
            port=self.port,
            max_concurrency=_sizes(plan).slots,
            health_path="/health",
            model_names=served.names,
            api_paths=API_PATHS,
            lists_models=False,
            writable=WRITABLE,
            startup_seconds=timeouts.startup,
            pre_stop=_pre_stop(timeouts, self.port),
            stop_seconds=timeouts.dns_staleness + timeouts.drain + END_SECONDS,
            prefix_cure="No argument ends that: each request may ask for the cache with `cache_prompt`.",
        )

    def access(self, spec: EngineSpec, model: ModelSpec | None = None) -> HubAccess:
        """The access of Jobs that read the model for the server, which asks no hub itself."""
        return HubAccess(
            env=access_variables(with_defaults(spec.env, {"HOME": TEMPORARY}), model),
            user=USER,
            group=GROUP,
            writable=WRITABLE,
            revision=model.revision if model else None,
            keys=bucket_keys(model.s3) if model else (),
        )

    @property
    def formats(self) -> frozenset[WeightFormat]:
        """GGUF only."""
        return frozenset({WeightFormat.GGUF})

    @property
    def needs_inspection(self) -> bool:
        """Yes: the server loads a file, whose name only the model's files tell."""
        return True

    @property
    def requires_facts(self) -> bool:
        """Yes: the name of the file is an argument."""
        return True

    def check_facts(self, facts: ModelFacts) -> Refusal | None:  # noqa: ARG002 - protocol
        """None: the format and the architecture decide."""
        return None

    def support(self, architecture: str, *, image: str) -> Support:
        """The architectures with which this version generates text."""
        return support(architecture, image)

    def check_model(self, spec: EngineSpec, model: ModelSpec, *, cached: bool) -> Refusal | None:  # noqa: ARG002 - protocol
        """The refusal of a model of a hub that no Job downloads, or None."""
        if cached or not model.source.startswith("hf://"):
            return None
        problem = "llama.cpp would download any revision of the model itself."
        cure = "Set `spec.cache`, so that the operator downloads it, or use a `pvc://` or `oci://` source."
        return Refusal(Reason.INVALID_SPEC, "spec.cache", problem, cure)

    @property
    def code_paths(self) -> Sequence[str]:
        """None: llama-server is no Python program."""
        return ()

    def diagnose(self, log: str) -> Diagnosis | None:
        """Why the server ended, from its last log lines; None if they match no known error."""
        return diagnosis_of(log, ERRORS)

    def shortage(self, log: str) -> Shortage | None:  # noqa: ARG002 - protocol
        """None: the server reports no amount that it lacks."""
        return None

    def phase(self, log: str) -> Phase | None:
        """The phase of the start, from the log; None if it shows none yet."""
        return phase(log)

    def load_progress(self, log: str) -> LoadProgress | None:  # noqa: ARG002 - protocol
        """None: the log does not tell."""
        return None

    def startup_hint(self, phase: Phase) -> str:  # noqa: ARG002 - protocol
        """None is known."""
        return ""

    @property
    def metrics_page(self) -> MetricsPage:
        """The page of the server, on the port of its API."""
        return MetricsPage(idle_seconds=IDLE_SECONDS)

    @property
    def series(self) -> EngineSeries:
        """The requests in slots and before them. Latencies are those of the routers."""
        return EngineSeries(running=RUNNING, waiting=WAITING)

    def sample(self, metrics_text: str) -> EngineSample | None:
        """A sample of the metrics; None if they have no numbers of requests."""
        try:
            found = {one.name: one.value for one in series(metrics_text, [RUNNING, WAITING, STEPS])}
            running, waiting, steps = int(found[RUNNING]), int(found[WAITING]), found[STEPS]
        except (KeyError, ValueError, OverflowError):
            return None
        return EngineSample(model="", running=running, waiting=waiting, progress=(steps,))

    def load(self, metrics_text: str) -> EngineLoad | None:  # noqa: ARG002 - protocol
        """None: the server shows no use of its cache."""
        return None

    def probe_request(self, model: str) -> ProbeRequest:
        """A completion of one token. The server needs no name: it has one model."""
        return ProbeRequest("/v1/completions", {"prompt": "1", "max_tokens": 1, **({"model": model} if model else {})})


def _sizes(plan: Plan) -> memory.Sizes:
    slots = memory.SLOTS_ON_GPUS if plan.device is Device.GPU else memory.SLOTS_ON_CPUS
    shape = Shape(
        context=plan.max_model_len,
        max_num_seqs=plan.max_num_seqs,
        max_num_batched_tokens=plan.max_num_batched_tokens,
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
    numbers = (str(number) for number in (port, timeouts.dns_staleness, timeouts.drain))
    return ("bash", "-c", f'eval "${PRE_STOP_VARIABLE}"', "pre_stop", *numbers)
