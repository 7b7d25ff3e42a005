"""Hugging Face Transformers behind the engine protocol: `transformers serve` for one model, of vLLM's image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.model import ModelSpec
from inference_operator.api.refusal import Refusal
from inference_operator.engines.checked_start import GPU_CHECK, GPU_CHECK_SOURCE, checked_start
from inference_operator.engines.engine_key import KEY_FILE, KEY_PROGRAM, KEY_SOURCE
from inference_operator.engines.environment import refusal_of_variables, with_defaults
from inference_operator.engines.hub_access import (
    access_variables,
    bucket_keys,
    offline_variables,
    refusal_of_moved_cache,
    with_token,
)
from inference_operator.engines.known_error import diagnosis_of
from inference_operator.engines.known_images import VLLM_IMAGES, refusal_of_foreign_image
from inference_operator.engines.model_access import HubAccess, Support
from inference_operator.engines.process import EngineProcess, ProbeRequest, ServedModel, Timeouts
from inference_operator.engines.programs import program_command
from inference_operator.engines.series import series
from inference_operator.engines.sizes import Parsers
from inference_operator.engines.start_log import Diagnosis, LoadProgress, Phase
from inference_operator.engines.telemetry import EngineLoad, EngineSeries, MetricsPage
from inference_operator.engines.transformers import memory
from inference_operator.engines.transformers.architectures import BATCHED, support
from inference_operator.engines.transformers.options import CLASSES, OPTIONS
from inference_operator.engines.transformers.start_log import ERRORS, load_progress, phase
from inference_operator.engines.validation import NO_DATA_PARALLEL, OptionClasses
from inference_operator.engines.vllm.cuda import gpu_needs
from inference_operator.engines.vllm.image import GROUP, HOME, TEMPORARY, USER, WRITABLE, default_image
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.checkpoint import WeightFormat
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import ELEMENT_BYTES
from inference_operator.settings import Settings
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.learned import Shortage
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape
from inference_operator.views.samples import EngineSample

BATCHING = ("--continuous-batching", "--attn-implementation=sdpa")
"""Options of continuous batching. Another attention could be a kernel of the hub, which is code."""

SERVER = "server"
"""Name of the server among the programs of a pod."""
PROGRAMS = {
    GPU_CHECK: GPU_CHECK_SOURCE,
    SERVER: files(__package__).joinpath("server_program.py").read_text(encoding="utf-8"),
}
"""Sources of the programs that run in the container."""

PORT = 8000
IDLE_SECONDS = 3600
"""How long the server keeps an idle connection: as long as a request of a client may take."""
END_SECONDS = 10
"""From the last answer to the end of the process; 2 s were seen."""

ENVIRONMENT = {
    "HOME": HOME,
    "USER": "transformers",  # getpass fails for a uid without an entry in /etc/passwd
    "XDG_CACHE_HOME": f"{HOME}/.cache",
    "HF_HOME": f"{HOME}/.cache/huggingface",
    "TRITON_CACHE_DIR": f"{HOME}/.cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{HOME}/.cache/torchinductor",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
}
"""Puts every cache into a writable path, and turns usage reports to third parties off."""

API_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models")
"""Inference routes (transformers 5.19.0, `cli/serving/server.py`). Routers answer the last one."""

RUNNING, BATCHES = "transformers:num_requests_running", "transformers:batches_total"
"""Metrics of `server_program.py`: open requests, and forward passes since the start."""

UNSUPPORTED = frozenset(
    {
        *("adapterSlots", "maxAdapterRank", "cpuOffloadGiB", "generation", "gpuMemoryUtilization", "kvCacheDtype"),
        *("multimodal", "quantization", "reasoningParser", "toolCallParser"),
    }
)


@dataclass(frozen=True, slots=True)
class Transformers:
    """Transformers as an engine.

    Args:
        port: TCP port of its API and of its metrics.
    """

    port: int = PORT

    def check(self, spec: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:
        """The refusal of an image of another server, or of arguments or variables that it may not get; or None."""
        return (
            refusal_of_foreign_image(image, VLLM_IMAGES)
            or OPTIONS.refusal(spec.args)
            or refusal_of_variables(spec.env, allowed=settings.allowed_environment)
        )

    @property
    def unsupported_fields(self) -> frozenset[str]:
        """The fields that the server has no option for."""
        return UNSUPPORTED

    @property
    def devices(self) -> frozenset[Device]:
        """GPUs and CPUs."""
        return frozenset(Device)

    @property
    def divides_models(self) -> bool:
        """No: the command has no option for it."""
        return False

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
        """The classes of the command's options, and of the variables of its libraries."""
        return CLASSES

    def gpu_needs(self, spec: EngineSpec, image: str) -> GpuNeeds:
        """The needs of this image, which is vLLM's."""
        return gpu_needs(spec, image)

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> memory.OnOneGpu:  # noqa: ARG002 - protocol
        """The server on one of these GPUs."""
        return memory.OnOneGpu(offer.memory_gib, reported_gib)

    def cpu_needs(self, facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
        """Memory on CPUs, where the operator sets the size of the KV cache."""
        return memory.cpu_needs(facts, shape)

    def shape(self, spec: EngineSpec) -> Shape:
        """The engine part of a spec, in the types of sizing."""
        return Shape(
            context=spec.max_model_len,
            max_num_seqs=spec.max_num_seqs,
            max_num_batched_tokens=spec.max_num_batched_tokens,
            element_bytes=ELEMENT_BYTES.get(spec.dtype),
        )

    def parsers(self, image: str, *, model: str, architecture: str) -> Parsers:  # noqa: ARG002 - protocol
        """None: the library finds the calls and the reasoning in an answer by the model's own template."""
        return Parsers()

    def image(self, device: Device, settings: Settings) -> str:
        """The setting `gpuEngineImage` or `cpuEngineImage`: vLLM's image has Transformers too."""
        return default_image(device, settings)

    def advisories(self, image: str) -> str:  # noqa: ARG002 - protocol
        """None: vLLM does not run in it, and no table of Transformers is kept."""
        return ""

    @property
    def can_ask_for_key(self) -> bool:
        """Yes: the server is the operator's own program."""
        return True

    def process(
        self,
        spec: EngineSpec,
        plan: Plan,
        served: ServedModel,
        timeouts: Timeouts,
        *,
        host: str,
        traces: str = "",  # noqa: ARG002 - protocol
        asks_for_key: bool = False,
    ) -> EngineProcess:
        """The process of one engine of this plan."""
        defaults = {**ENVIRONMENT, **offline_variables(served.hub_cache)}
        options = (*_options(spec, plan), f"--host={host}", f"--port={self.port}", *spec.args)
        return EngineProcess(
            command=checked_start(program_command(SERVER, has_packages=True, starts_another=asks_for_key), plan),
            args=(
                served.model,
                *_limits(plan, served),
                *((f"key={KEY_FILE}",) if asks_for_key else ()),
                "--",
                *options,
            ),
            env=with_token(with_defaults(spec.env, defaults), served.token),
            user=USER,
            group=GROUP,
            port=self.port,
            max_concurrency=_sequences(plan),
            health_path="/health",
            model_names=served.names,
            api_paths=API_PATHS,
            lists_models=False,
            writable=WRITABLE,
            startup_seconds=timeouts.startup,
            programs={**PROGRAMS, **({KEY_PROGRAM: KEY_SOURCE} if asks_for_key else {})},
            pre_stop=(),
            pre_stop_seconds=timeouts.before_sigterm(finishes_requests=True),
            stop_seconds=timeouts.dns_staleness + timeouts.drain + END_SECONDS,
        )

    def access(self, spec: EngineSpec, model: ModelSpec | None = None) -> HubAccess:
        """The access that a process needs to read the model as the server does."""
        return HubAccess(
            env=access_variables(with_defaults(spec.env, ENVIRONMENT), model),
            user=USER,
            group=GROUP,
            writable=WRITABLE,
            revision=model.revision if model else None,
            keys=bucket_keys(model.s3) if model else (),
        )

    @property
    def formats(self) -> frozenset[WeightFormat]:
        """Safetensors only."""
        return frozenset({WeightFormat.SAFETENSORS})

    @property
    def needs_inspection(self) -> bool:
        """Yes: the architecture tells whether requests are computed in batches."""
        return True

    @property
    def requires_facts(self) -> bool:
        """No."""
        return False

    def check_facts(self, facts: ModelFacts) -> Refusal | None:  # noqa: ARG002 - protocol
        """None: the server refuses other models itself."""
        return None

    def support(self, architecture: str, *, image: str) -> Support:  # noqa: ARG002 - protocol
        """Text models of the library's own, most of them in batches."""
        return support(architecture)

    def check_model(self, spec: EngineSpec, model: ModelSpec, *, cached: bool) -> Refusal | None:  # noqa: ARG002 - protocol
        """The refusal of variables that lead away from the claim, or None."""
        return refusal_of_moved_cache(spec.env) if cached else None

    @property
    def code_paths(self) -> Sequence[str]:
        """Transformers' package. Code of models is in a cache."""
        return ("-packages/transformers/",)

    def diagnose(self, log: str) -> Diagnosis | None:
        """Why the server ended, from its last log lines; None if they match no known error."""
        return diagnosis_of(log, ERRORS)

    def shortage(self, log: str) -> Shortage | None:  # noqa: ARG002 - protocol
        """None: the server reports no amount."""
        return None

    def phase(self, log: str) -> Phase | None:
        """The phase of the start, from the log; None if it shows none yet."""
        return phase(log)

    def load_progress(self, log: str) -> LoadProgress | None:
        """How much of the weights is loaded, from the log; None if it does not tell."""
        return load_progress(log)

    def startup_hint(self, phase: Phase) -> str:  # noqa: ARG002 - protocol
        """None is known."""
        return ""

    @property
    def metrics_page(self) -> MetricsPage:
        """The page that our program adds to the server."""
        return MetricsPage(idle_seconds=IDLE_SECONDS)

    @property
    def series(self) -> EngineSeries:
        """The requests that it computes. Latencies are those of the routers."""
        return EngineSeries(running=RUNNING)

    def sample(self, metrics_text: str) -> EngineSample | None:
        """A sample of the metrics; None if they have no number of requests."""
        try:
            found = {one.name: one.value for one in series(metrics_text, [RUNNING, BATCHES])}
            running, batches = int(found[RUNNING]), found[BATCHES]
        except (KeyError, ValueError, OverflowError):
            return None
        return EngineSample(model="", running=running, waiting=0, progress=(batches,))

    def load(self, metrics_text: str) -> EngineLoad | None:  # noqa: ARG002 - protocol
        """None: the server counts neither its queue nor its cache."""
        return None

    def probe_request(self, model: str) -> ProbeRequest:
        """A completion of one token. The server needs no name: it has one model."""
        return ProbeRequest("/v1/completions", {"prompt": "1", "max_tokens": 1, **({"model": model} if model else {})})


def _sequences(plan: Plan) -> int:
    mode = Support(implementation=plan.implementation)
    return memory.sequences_of(mode, plan.max_num_seqs, on_gpus=plan.device is Device.GPU)


def _limits(plan: Plan, served: ServedModel) -> Iterator[str]:
    """The arguments of `server_program.py` after the model."""
    usual_batch = memory.BATCH_ON_GPUS if plan.device is Device.GPU else memory.BATCH_ON_CPUS
    yield from (f"name={name}" for name in served.names)
    yield f"revision={served.commit or served.revision or ''}"
    yield f"context={plan.max_model_len or 0}"
    yield f"sequences={_sequences(plan)}"
    yield f"cache={plan.kv_cache_bytes or 0}"
    yield f"batch={plan.max_num_batched_tokens or usual_batch}"
    yield f"idle={IDLE_SECONDS}"
    yield f"folder={TEMPORARY}"


def _options(spec: EngineSpec, plan: Plan) -> Iterator[str]:
    """The options of `transformers serve` that follow from the specification and the plan."""
    yield from BATCHING if plan.implementation == BATCHED else ()
    yield f"--device={'cuda:0' if plan.device is Device.GPU else 'cpu'}"
    yield f"--dtype={spec.dtype}"
    yield "--log-level=error"
