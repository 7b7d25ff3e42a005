"""How vLLM is started, watched and stopped."""

from collections.abc import Mapping, Sequence
from importlib.resources import files

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import EngineSpec
from inference_operator.engines.engine import Diagnosis, EngineProcess, HubAccess, Patience, Phase, Question, Served
from inference_operator.engines.vllm.access import hub_variables, revision_of
from inference_operator.engines.vllm.arguments import refusal_of_args, refusal_of_env, version_of_image
from inference_operator.engines.vllm.errors import diagnosis
from inference_operator.engines.vllm.memory import vllm_cpu_memory, vllm_memory
from inference_operator.engines.vllm.memory_flags import memory_arguments, refusal_of_cache_bytes, shape_of
from inference_operator.engines.vllm.metrics import REQUESTS_RUNNING, REQUESTS_WAITING, engine_sample
from inference_operator.engines.vllm.phase import phase
from inference_operator.hardware.offers import GpuOffer
from inference_operator.observed.samples import EngineSample
from inference_operator.settings import Settings
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape

SHUTDOWN_SECONDS = 10
"""`--shutdown-timeout`: how long vLLM goes on after SIGTERM (since 0.18; 0 aborts requests at once). It has waited for
its requests by then, so this is for one that came between the last look and the signal."""

PRE_STOP = files(__package__).joinpath("pre_stop.py").read_text(encoding="utf-8")
"""The program that waits for the requests; the engine's image has Python, and nothing of ours."""

ENGINE_READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
"""How long vLLM itself waits for its engine before it gives up: 600 s by default, which a large model exceeds (0.32.0,
vllm/envs.py)."""

HOME = "/home/vllm"
"""Home of the user that vLLM's images prepare since 0.22 (uid 2000, gid 0)."""

WRITABLE = (HOME, "/tmp")  # noqa: S108 - an emptyDir of the pod's own
"""Everything that vLLM writes: caches and compiled kernels below its home, sockets in /tmp."""

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
    # uvicorn closes idle connections after 5 s by default, in the face of a router that is about to use one.
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "3600",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
"""Every cache in a writable place (vLLM 0.32.0, vllm/envs.py), and no usage report to third parties."""


class Vllm:
    """vLLM behind the protocol of engines."""

    def check(self, asked: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:
        """Why what was asked cannot be given by the engine of this image, or None."""
        return (
            refusal_of_args(asked.args, image=image, allowed=settings.allowed_arguments)
            or refusal_of_cache_bytes(asked.args)
            or refusal_of_env(asked.env, allowed=settings.allowed_environment)
        )

    def memory(self, image: str, offer: GpuOffer) -> EngineMemory:
        """How the vLLM of this image uses the memory of these GPUs; by its tag, or as the latest that is known."""
        return vllm_memory(version_of_image(image), memory_gib=offer.memory_gib, product=offer.kind)

    def cpu_memory(self, *, latent: bool) -> EngineMemory:
        """How vLLM uses memory on CPUs."""
        return vllm_cpu_memory(latent=latent)

    def shape(self, asked: EngineSpec) -> Shape:
        """What is asked of an engine, in the words of sizing."""
        return shape_of(asked)

    def process(self, asked: EngineSpec, plan: Plan, served: Served, patience: Patience, *, port: int) -> EngineProcess:
        """How one vLLM of this plan is run."""
        managed = (
            f"--served-model-name={served.name}",
            "--host=0.0.0.0",
            f"--port={port}",
            f"--tensor-parallel-size={plan.tensor_parallel_size}",
            *memory_arguments(asked, plan),
            f"--shutdown-timeout={SHUTDOWN_SECONDS}",
        )
        return EngineProcess(
            command=("vllm", "serve"),
            args=(served.model, *managed, *asked.args),
            env=_environment(asked.env, {ENGINE_READY_TIMEOUT: str(patience.startup)}),
            health_path="/health",
            writable=WRITABLE,
            startup_seconds=patience.startup,
            pre_stop=_pre_stop(patience, port),
            stop_seconds=patience.staleness + patience.drain + SHUTDOWN_SECONDS,
        )

    def access(self, asked: EngineSpec) -> HubAccess:
        """How vLLM gets at its model."""
        return HubAccess(hub_variables(_environment(asked.env, {})), WRITABLE, revision_of(asked.args))

    def diagnose(self, log: str) -> Diagnosis | None:
        """What its last words say about its end; None where they say nothing that is known."""
        return diagnosis(log)

    def phase(self, log: str) -> Phase | None:
        """How far vLLM is, by the log of a start; None where that does not tell yet."""
        return phase(log)

    def sample(self, metrics_text: str) -> EngineSample | None:
        """What vLLM's metrics tell about its work; None where they do not."""
        return engine_sample(metrics_text)

    def question(self, model: str) -> Question:
        """One token of a completion: it takes one step of the engine's core."""
        return Question("/v1/completions", {"model": model, "prompt": "1", "max_tokens": 1})


def _pre_stop(patience: Patience, port: int) -> tuple[str, ...]:
    numbers = (str(number) for number in (port, patience.staleness, patience.drain))
    return ("python3", "-I", "-S", "-c", PRE_STOP, *numbers, REQUESTS_RUNNING, REQUESTS_WAITING)


def _environment(asked: Sequence[EnvironmentVariable], more: Mapping[str, str]) -> tuple[EnvironmentVariable, ...]:
    """The defaults and what else is computed, where nothing else was asked, and then what was asked."""
    names = {variable.name for variable in asked}
    values = {**ENVIRONMENT, **more}
    defaults = (EnvironmentVariable(name=n, value=v) for n, v in values.items() if n not in names)
    return (*defaults, *asked)
