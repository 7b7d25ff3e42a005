"""How vLLM is started, watched and stopped."""

from collections.abc import Sequence

from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import EngineSpec, EnvironmentVariable
from inference_operator.engines.engine import EngineProcess, Served
from inference_operator.engines.vllm.flags import refusal_of_args, refusal_of_env
from inference_operator.sizing.plan import Plan

DRAIN_SECONDS = 60
"""`--shutdown-timeout`: how long vLLM finishes running requests after SIGTERM (since 0.18; 0 aborts them)."""

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

    def check(self, asked: EngineSpec) -> Refusal | None:
        """Why what was asked cannot be given, or None."""
        return refusal_of_args(asked.args) or refusal_of_env(asked.env)

    def process(self, asked: EngineSpec, plan: Plan, served: Served, *, port: int) -> EngineProcess:
        """How one vLLM of this plan is run."""
        managed = (
            f"--served-model-name={served.name}",
            "--host=0.0.0.0",
            f"--port={port}",
            f"--tensor-parallel-size={plan.tensor_parallel_size}",
            f"--shutdown-timeout={DRAIN_SECONDS}",
        )
        return EngineProcess(
            command=("vllm", "serve"),
            args=(served.model, *managed, *asked.args),
            env=_environment(asked.env),
            health_path="/health",
            writable=WRITABLE,
            drain_seconds=DRAIN_SECONDS,
        )


def _environment(asked: Sequence[EnvironmentVariable]) -> tuple[EnvironmentVariable, ...]:
    """The defaults, where nothing else was asked, and then what was asked."""
    names = {variable.name for variable in asked}
    defaults = (EnvironmentVariable(name=n, value=v) for n, v in ENVIRONMENT.items() if n not in names)
    return (*defaults, *asked)
