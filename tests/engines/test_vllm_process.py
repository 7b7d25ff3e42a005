from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.spec import EngineSpec
from inference_operator.engines.base import EngineProcess, ServedModel, Timeouts
from inference_operator.engines.vllm.arguments import managed_flag
from inference_operator.engines.vllm.flags import MANAGED_FLAGS, MANAGED_VARIABLES
from inference_operator.engines.vllm.options import SPELLINGS as OPTIONS
from inference_operator.engines.vllm.vllm import (
    ENGINE_READY_TIMEOUT,
    ENVIRONMENT,
    HOME,
    SHUTDOWN_SECONDS,
    WRITABLE,
    Vllm,
)
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import SizingRequest

TIMEOUTS = Timeouts(startup=1800, dns_staleness=15, drain=300)


def process(asked: EngineSpec | None = None, *, tensor: int = 1) -> EngineProcess:
    sizes = unchecked_plan(SizingRequest(tensor))
    return Vllm().process(asked or EngineSpec(), sizes, ServedModel("Qwen/Qwen3-8B", "qwen"), TIMEOUTS, host="::")


def test_the_model_is_the_first_engine_argument_and_arguments_of_the_spec_are_the_last() -> None:
    args = process(EngineSpec(args=("--max-model-len=4096",)), tensor=8).args
    assert list(args) == [
        "Qwen/Qwen3-8B",
        "--served-model-name=qwen",
        "--host=::",
        "--port=8000",
        "--tensor-parallel-size=8",
        f"--shutdown-timeout={SHUTDOWN_SECONDS}",
        "--max-model-len=4096",
    ]


def test_every_argument_that_the_operator_sets_is_a_managed_flag_and_a_vllm_option() -> None:
    for argument in process().args[1:]:
        assert managed_flag(argument) in MANAGED_FLAGS
        assert argument.partition("=")[0] in OPTIONS


def test_environment_variables_of_the_spec_replace_the_defaults() -> None:
    asked = (EnvironmentVariable(name="HF_HOME", value="/tmp/hub"), EnvironmentVariable(name="A", value="1"))  # noqa: S108 - a path in a pod
    env = process(EngineSpec(env=asked)).env
    values = {variable.name: variable.value for variable in env}
    assert len(values) == len(env)
    assert values == {**ENVIRONMENT, ENGINE_READY_TIMEOUT: "1800", "HF_HOME": "/tmp/hub", "A": "1"}  # noqa: S108 - a path in a pod


def test_every_path_in_the_default_environment_is_in_the_writable_home() -> None:
    paths = [value for value in ENVIRONMENT.values() if value.startswith("/")]
    assert paths
    assert all(path.startswith(HOME) for path in paths)
    assert HOME in WRITABLE


def test_users_cannot_set_the_home_variable() -> None:
    assert "HOME" in MANAGED_VARIABLES
    assert ENVIRONMENT["HOME"] == HOME
