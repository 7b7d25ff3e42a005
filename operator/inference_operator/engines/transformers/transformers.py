"""Hugging Face Transformers as an engine: `transformers serve` for one model, of vLLM's image."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.model import ModelSpec
from inference_operator.api.refusal import Refusal
from inference_operator.engines.base import OF_GPU_ENGINES, Engine
from inference_operator.engines.environment import MANAGED, refusal_of_variables, with_defaults
from inference_operator.engines.known_images import VLLM_IMAGES, refusal_of_foreign_image
from inference_operator.engines.model_access import (
    TEMPORARY,
    Support,
    offline_variables,
    refusal_of_moved_cache,
    with_token,
)
from inference_operator.engines.options import ClosedOptions, rules_of
from inference_operator.engines.process import FRONT, EngineProcess, Front, ServedModel, Timeouts
from inference_operator.engines.programs import CHECK_PROGRAMS, KEY_FILE, KEY_PROGRAMS, checked_start, program_command
from inference_operator.engines.start_log import known_errors, phases_of
from inference_operator.engines.telemetry import EngineSeries, MetricsPage
from inference_operator.engines.transformers import memory
from inference_operator.engines.transformers.memory import BATCHED, VERSION, support
from inference_operator.engines.vllm_image import HOME, WRITABLE, default_image, gpu_needs
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.model import ELEMENT_BYTES
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape
from inference_operator.text_tables import text_of

LOADED = re.compile(r"Loading weights:\s+(\d{1,2})%\|")
"""transformers 5.19.0, core_model_loading.py, with tqdm."""
ERRORS = known_errors(__package__, "errors")

OPTIONS = ClosedOptions.of(
    __package__,
    VERSION,
    command="transformers serve",
    others="Use one of `--chat-template-kwargs`, `--default-seed`, `--reasoning`, or `spec.engine.kind: VLLM`.",
)
"""`--attn-implementation` can name a kernel of the hub, which is code; `--log-level` can show prompts."""
CLASSES = OPTIONS.classes(MANAGED)
BATCHING = ("--continuous-batching", "--attn-implementation=sdpa")
"""Options of continuous batching. Another attention could be a kernel of the hub, which is code."""
SERVER = "server"
PROGRAMS = {**CHECK_PROGRAMS, SERVER: text_of(__package__, "server_program.py")}
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


@dataclass(frozen=True, slots=True)
class Transformers(Engine):
    unsupported_fields = OF_GPU_ENGINES
    option_classes = CLASSES
    option_rules = tuple(rules_of(OPTIONS.by_name.values()))
    can_ask_for_key = True
    """The server is the operator's own program."""
    code_paths = ("-packages/transformers/",)
    """Code of models is in a cache."""
    errors, phases, loaded = ERRORS, phases_of(__package__), LOADED
    metrics_page = MetricsPage(idle_seconds=IDLE_SECONDS)
    series = EngineSeries(running=RUNNING)
    steps = BATCHES

    environment, writable = ENVIRONMENT, WRITABLE

    gpu_needs = staticmethod(gpu_needs)
    cpu_needs = staticmethod(memory.cpu_needs)
    image = staticmethod(default_image)

    port: int = PORT

    def check(self, spec: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:
        return (
            refusal_of_foreign_image(image, VLLM_IMAGES)
            or OPTIONS.refusal(spec.args)
            or refusal_of_variables(spec.env, allowed=settings.allowed_environment)
        )

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> memory.OnOneGpu:  # noqa: ARG002 - protocol
        return memory.OnOneGpu(offer.memory_gib, reported_gib)

    def shape(self, spec: EngineSpec) -> Shape:
        return replace(Engine.shape(self, spec), element_bytes=ELEMENT_BYTES.get(spec.dtype))

    def process(
        self, spec: EngineSpec, plan: Plan, served: ServedModel, timeouts: Timeouts, at: Front = FRONT
    ) -> EngineProcess:
        defaults = {**ENVIRONMENT, **offline_variables(served.hub_cache)}
        key = (f"key={KEY_FILE}",) if at.asks_for_key else ()
        options = (*_options(spec, plan), f"--host={at.host}", f"--port={self.port}", *spec.args)
        return EngineProcess(
            command=checked_start(program_command(SERVER, has_packages=True, starts_another=at.asks_for_key), plan),
            args=(served.model, *_limits(plan, served), *key, "--", *options),
            env=with_token(with_defaults(spec.env, defaults), served.token),
            port=self.port,
            max_concurrency=_sequences(plan),
            model_names=served.names,
            api_paths=API_PATHS,
            lists_models=False,
            writable=self.writable,
            startup_seconds=timeouts.startup,
            programs={**PROGRAMS, **(KEY_PROGRAMS if at.asks_for_key else {})},
            pre_stop_seconds=timeouts.dns_staleness,
            stop_seconds=timeouts.dns_staleness + timeouts.drain + END_SECONDS,
        )

    def support(self, architecture: str, *, image: str) -> Support:  # noqa: ARG002 - protocol
        return support(architecture)

    def check_model(self, spec: EngineSpec, model: ModelSpec, *, cached: bool) -> Refusal | None:  # noqa: ARG002 - protocol
        return refusal_of_moved_cache(spec.env) if cached else None


def _sequences(plan: Plan) -> int:
    mode = Support(implementation=plan.implementation)
    return memory.sequences_of(mode, plan.max_num_seqs, on_gpus=plan.device is Device.GPU)


def _limits(plan: Plan, served: ServedModel) -> Iterator[str]:
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
    yield from BATCHING if plan.implementation == BATCHED else ()
    yield f"--device={'cuda:0' if plan.device is Device.GPU else 'cpu'}"
    yield f"--dtype={spec.dtype}"
    yield "--log-level=error"
