from pathlib import Path

import pytest

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import EngineSpec
from inference_operator.engines.vllm.flags import (
    FLAG_ALIASES,
    MANAGED_FLAGS,
    MANAGED_VARIABLES,
    managed_flag,
    refusal_of_args,
    refusal_of_env,
)
from inference_operator.engines.vllm.vllm import Vllm

OPTIONS = frozenset(Path(__file__).with_name("vllm-0.32.0-options.txt").read_text().split())
"""Every option of `vllm serve` (vLLM 0.32.0, vllm/entrypoints/launchers/cli_args.py, make_arg_parser)."""

SPELLINGS = {**{flag: flag for flag in MANAGED_FLAGS}, **FLAG_ALIASES}


def test_every_managed_flag_exists() -> None:
    assert SPELLINGS.keys() <= OPTIONS


@pytest.mark.parametrize("option", sorted(OPTIONS - SPELLINGS.keys()))
def test_no_other_option_is_refused(option: str) -> None:
    assert managed_flag(option) is None
    assert managed_flag(f"{option}=1") is None


@pytest.mark.parametrize(("spelling", "flag"), SPELLINGS.items())
def test_every_spelling_is_recognised(spelling: str, flag: str) -> None:
    for written in (spelling, f"{spelling}=x", f"{spelling}=", spelling.replace("-", "_").replace("__", "--", 1)):
        if written.startswith("-"):
            assert managed_flag(written) == flag


@pytest.mark.parametrize(("spelling", "flag"), SPELLINGS.items())
def test_every_abbreviation_is_recognised(spelling: str, flag: str) -> None:
    for length in range(len(spelling.rstrip("-")), len(spelling) - len(spelling.lstrip("-")), -1):
        short = spelling[:length]
        meant = {SPELLINGS.get(option) for option in OPTIONS if option.startswith(short)}
        if short in OPTIONS or meant != {flag}:
            continue  # it is another option, or vLLM refuses it as ambiguous
        assert managed_flag(short) == managed_flag(f"{short}=x") == flag


@pytest.mark.parametrize(
    ("argument", "flag"),
    [
        ("--model", "--model"),
        ("--served_model_name=x", "--served-model-name"),
        ("--served-model_name", "--served-model-name"),
        ("--tensor-parallel-size=8", "--tensor-parallel-size"),
        ("--tensor-par", "--tensor-parallel-size"),
        ("-tp", "--tensor-parallel-size"),
        ("-tp=2", "--tensor-parallel-size"),
        ("-t", "--tensor-parallel-size"),
        ("-asc=2", "--api-server-count"),
        ("--por=1", "--port"),
        ("--shut=0", "--shutdown-timeout"),
    ],
)
def test_what_is_managed(argument: str, flag: str) -> None:
    assert managed_flag(argument) == flag


@pytest.mark.parametrize("argument", ["", "-", "--", "8", "port", "/models", "-1", '{"port": 1}', "a--port"])
def test_values_are_no_flags(argument: str) -> None:
    assert managed_flag(argument) is None


def test_the_first_managed_argument_is_named_with_its_cure() -> None:
    refusal = refusal_of_args(["--max-num-seqs", "8", "-tp", "2", "--port=1"])
    assert refusal is not None
    assert refusal.reason is Reason.MANAGED_ARGUMENT
    assert refusal.message == (
        "spec.engine.args[2]: `-tp` sets `--tensor-parallel-size`, which is the operator's to decide."
        " Use `spec.parallelism.tensor`."
    )
    assert refusal_of_args(["--max-num-seqs", "8", "--enforce-eager"]) is None
    assert refusal_of_args([]) is None


@pytest.mark.parametrize("name", MANAGED_VARIABLES)
def test_managed_variables_are_refused(name: str) -> None:
    refusal = refusal_of_env([EnvironmentVariable(name="A", value="1"), EnvironmentVariable(name=name, value="1")])
    assert refusal is not None
    assert refusal.message.startswith(f"spec.engine.env[{name}]: `{name}` is the operator's to decide.")
    assert Vllm().check(EngineSpec(env=(EnvironmentVariable(name=name, value="1"),))) == refusal


def test_other_variables_are_not() -> None:
    names = ("VLLM_USE_V1", "HF_HOME", "home", "HOMEPAGE")
    assert refusal_of_env([EnvironmentVariable(name=name, value="1") for name in names]) is None
