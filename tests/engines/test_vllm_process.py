import json
from dataclasses import replace

import pytest

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.router import MAX_ROUTERS
from inference_operator.engines.process import EngineProcess, ServedModel, Timeouts
from inference_operator.engines.vllm.flags import MANAGED_FLAGS, MANAGED_VARIABLES
from inference_operator.engines.vllm.memory import CPU_SEQUENCES, LARGE_SEQUENCES
from inference_operator.engines.vllm.options import SPELLINGS as OPTIONS
from inference_operator.engines.vllm.request_limits import MAX_N, NO_HOST, OVERRIDE
from inference_operator.engines.vllm.vllm import (
    ENGINE_READY_TIMEOUT,
    ENVIRONMENT,
    MAX_NUM_QUEUED_REQS,
    SHUTDOWN_SECONDS,
    Vllm,
)
from inference_operator.engines.vllm_image import HOME, WRITABLE
from inference_operator.router.process import METRICS_PORTS
from inference_operator.settings import Settings
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import SizingInputs
from tests.testing.managed_flags import managed_flag

TIMEOUTS = Timeouts(startup=1800, dns_staleness=15, drain=300)


def process(asked: EngineSpec | None = None, *, tensor: int = 1) -> EngineProcess:
    sizes = unchecked_plan(SizingInputs(tensor))
    return Vllm().process(asked or EngineSpec(), sizes, ServedModel("Qwen/Qwen3-8B", "qwen"), TIMEOUTS)


def test_the_model_is_the_first_engine_argument_and_arguments_of_the_spec_are_the_last() -> None:
    args = process(EngineSpec(args=("--max-model-len=4096",)), tensor=8).args
    assert list(args) == [
        "Qwen/Qwen3-8B",
        "--served-model-name",
        "qwen",
        "Qwen/Qwen3-8B",
        "--host=::",
        "--port=8000",
        "--tensor-parallel-size=8",
        "--allowed-media-domains",
        NO_HOST,
        f"--shutdown-timeout={SHUTDOWN_SECONDS}",
        "--max-model-len=4096",
    ]


def test_every_argument_that_the_operator_sets_is_a_managed_flag_and_a_vllm_option() -> None:
    for argument in (one for one in process().args[1:] if one.startswith("-")):
        assert managed_flag(argument) in MANAGED_FLAGS
        assert argument.partition("=")[0] in OPTIONS


@pytest.mark.parametrize("given", [(), ("--mm-encoder-tp-mode=weights",)])
def test_the_mode_of_an_encoder_follows_from_the_plan_unless_arguments_set_it(given: tuple[str, ...]) -> None:
    sizes = replace(unchecked_plan(SizingInputs(8)), whole_encoder=True)
    made = Vllm().process(EngineSpec(args=given), sizes, ServedModel("org/vl", "vl"), TIMEOUTS)
    assert [one for one in made.args if one.startswith("--mm-encoder-tp-mode")] == list(
        given or ("--mm-encoder-tp-mode=data",)
    )
    assert not [one for one in process(tensor=8).args if one.startswith("--mm-encoder")]


def test_generation_sets_what_requests_leave_open_and_the_most_that_they_may_ask_for() -> None:
    asked = EngineSpec.model_validate({"generation": {"temperature": 0, "topP": 0.9, "maxTokens": 512, "maxN": 4}})
    made = process(asked)
    (argument,) = [one for one in made.args if one.startswith(OVERRIDE)]
    assert json.loads(argument.partition("=")[2]) == {"temperature": 0, "top_p": 0.9, "max_new_tokens": 512}
    assert {one.name: one.value for one in made.env}[MAX_N] == "4"
    assert not [one for one in process().args if one.startswith(OVERRIDE)]


def test_environment_variables_of_the_spec_replace_the_defaults() -> None:
    asked = (EnvironmentVariable(name="HF_HOME", value="/tmp/hub"), EnvironmentVariable(name="A", value="1"))  # noqa: S108 - a path in a pod
    env = process(EngineSpec(env=asked)).env
    values = {variable.name: variable.value for variable in env}
    assert len(values) == len(env)
    own = {ENGINE_READY_TIMEOUT: "1800", MAX_N: "128"}
    assert values == {**ENVIRONMENT, **own, "HF_HOME": "/tmp/hub", "A": "1"}  # noqa: S108 - a path in a pod


def test_every_path_in_the_default_environment_is_in_the_writable_home() -> None:
    paths = [value for value in ENVIRONMENT.values() if value.startswith("/")]
    assert paths
    assert all(path.startswith(HOME) for path in paths)
    assert HOME in WRITABLE


def test_users_cannot_set_the_home_variable() -> None:
    assert "HOME" in MANAGED_VARIABLES
    assert ENVIRONMENT["HOME"] == HOME


def test_the_requests_sent_to_an_engine_at_a_time_are_the_sequences_of_its_batch() -> None:
    cpu = replace(unchecked_plan(SizingInputs(1)), device=Device.CPU)
    given = [replace(cpu, max_num_seqs=4), cpu, unchecked_plan(SizingInputs(1))]
    served = ServedModel("Qwen/Qwen3-8B", "qwen")
    numbers = [Vllm().process(EngineSpec(), plan, served, TIMEOUTS).max_concurrency for plan in given]
    assert numbers == [4, CPU_SEQUENCES, LARGE_SEQUENCES]


def test_the_engine_limits_its_unfinished_requests_far_above_what_all_routers_send_it() -> None:
    most = MAX_ROUTERS * len(METRICS_PORTS) * LARGE_SEQUENCES
    assert f"{MAX_NUM_QUEUED_REQS}={most}" in process(EngineSpec(image="docker.io/vllm/vllm-openai:v0.32.0")).args


def test_an_image_that_may_not_know_the_limit_of_unfinished_requests_does_not_get_it() -> None:
    for image in ("docker.io/vllm/vllm-openai:v0.31.0", "registry.example/mine:latest"):
        assert not [one for one in process(EngineSpec(image=image)).args if one.startswith(MAX_NUM_QUEUED_REQS)]


def test_the_limit_of_unfinished_requests_in_the_arguments_of_the_spec_is_the_only_one() -> None:
    asked = EngineSpec(image="docker.io/vllm/vllm-openai:v0.32.0", args=("--max-num-queued-reqs", "64"))
    assert [one for one in process(asked).args if one.startswith(MAX_NUM_QUEUED_REQS)] == [MAX_NUM_QUEUED_REQS]


@pytest.mark.parametrize(
    ("profile", "image", "argument"),
    [
        ("Balanced", None, ""),
        ("Smallest", None, ""),
        ("Throughput", None, "--performance-mode=throughput"),
        ("Latency", "vllm/vllm-openai:v0.32.0", "--performance-mode=interactivity"),
        ("Throughput", "vllm/vllm-openai:v0.19.0", ""),
        ("Throughput", "registry/own:latest", ""),
    ],
)
def test_a_profile_sets_the_performance_mode_of_versions_that_have_it(
    profile: str, image: str | None, argument: str
) -> None:
    spec = EngineSpec.model_validate({"profile": profile, "image": image})
    modes = [one for one in process(spec).args if one.startswith("--performance-mode")]
    assert modes == ([argument] if argument else [])
    assert Vllm().shape(spec).doubled_batches is (argument == "--performance-mode=throughput")


def test_the_performance_mode_is_managed() -> None:
    spec = EngineSpec(args=("--performance-mode=throughput",))
    refused = Vllm().check(spec, image="vllm/vllm-openai:v0.32.0", settings=Settings())
    assert refused is not None
    assert "spec.engine.profile" in refused.cure
