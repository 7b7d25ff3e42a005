"""Status and Events name the argument or the variable that an engine refused, and never its value."""

import argparse
import contextlib
import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.status import Status
from inference_operator.engines.vllm.options import OPTIONS
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Manifest
from inference_operator.settings import Settings
from inference_operator.status.events import events
from tests.engines.test_vllm_errors import said
from tests.status.situations import loading, reported, view
from tests.testing.builders import waiting

CANARY = "correct-horse-battery-staple"
HOSTILE = (
    CANARY,
    f"a {CANARY}",
    f"line\n{CANARY}\nlast",
    f'it\'s "{CANARY}"',
    f"x, input_type=str] {CANARY}",
    f"Cannot find any model weights with `{CANARY}`",
    f"Invalid repository ID or local directory specified: '{CANARY}'",
    f"checkpoint you are trying to load has model type `{CANARY}` but Transformers does not recognize",
    f"nvidia-container-cli: initialization error: {CANARY}",
    f"NCCL error: {CANARY}",
    f"VLLM_PORT '{CANARY}' appears to be a URI",
    f"wrong GPU: the engine was sized for {CANARY}; this node gives it {CANARY}",
    f"validation error for {CANARY}",
    CANARY * 200,
)
LAST_BYTES = 2048
"""What the kubelet keeps of a log as termination message."""


def refused(value: str) -> argparse.Namespace:
    """What vLLM's types raise about a value (0.32.0, vllm/engine/arg_utils.py, `parse_type`)."""
    raise argparse.ArgumentTypeError(f"Value {value} cannot be converted to {int}.")


def not_valid(value: str) -> argparse.Namespace:
    """The same of options with a dataclass, `parse_dataclass`: several lines of pydantic."""
    lines = f"1 validation error for CompilationConfig\nmode\n  Input should be 1 [type=a, input_value='{value}', x]"
    raise argparse.ArgumentTypeError(lines)


def message_of(args: Sequence[str]) -> str:
    """What the parser of a vLLM-like command prints about arguments."""
    parser = argparse.ArgumentParser(prog="vllm serve")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--dtype", choices=["auto", "half"])
    parser.add_argument("--max-num-seqs", type=refused)
    parser.add_argument("--max-num-batched-tokens")
    parser.add_argument("--compilation-config", "-cc", type=not_valid)
    parser.add_argument("--enforce-eager", action="store_true")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--one")
    group.add_argument("--other")
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), pytest.raises(SystemExit):
        parser.parse_args(args)
    return printed.getvalue()


def forms(value: str) -> dict[str, str]:
    """Every form of the parser's last line, with this value; by the argument that the diagnosis must name."""
    return {
        "`--seed`": message_of([f"--seed={value}"]),
        "`--dtype`": message_of([f"--dtype={value}"]),
        "`--max-num-seqs`": message_of([f"--max-num-seqs={value}"]),
        "`--compilation-config/-cc`": message_of([f"--compilation-config={value}"]),
        "`--enforce-eager`": message_of([f"--enforce-eager={value}"]),
        "`--max-num`": message_of([f"--max-num={value}"]),
        "`--nosuch`": message_of([f"--nosuch={value}", value]),
        "`--other` is not allowed with `--one`": message_of([f"--one={value}", f"--other={value}"]),
        "its arguments": message_of([f"x{value}"]),
        "`--max-num-batched-tokens` needs a value": message_of([value, "--max-num-batched-tokens"]),
    }


def shown(message: str) -> str:
    """Status and Events of a resource whose engine ends with this termination message."""
    last: Manifest = {"terminated": {"exitCode": 2, "message": message.encode()[-LAST_BYTES:].decode(errors="replace")}}
    status = reported(loading(pods=[view(waiting("CrashLoopBackOff", "", last=last))])).status
    return json.dumps([status.dump(), [str(one) for one in events(Status(), status)]])


@pytest.mark.parametrize("value", HOSTILE)
def test_the_diagnosis_of_each_form_of_the_parsers_message_names_the_argument_alone(value: str) -> None:
    for named, message in forms(value).items():
        found = Vllm().diagnose(message)
        assert found is not None
        assert found.reason is Reason.INVALID_ARGUMENT
        assert named in found.cause
        assert CANARY not in found.cause
        assert CANARY not in shown(message)


@given(value=st.text(min_size=1).filter(lambda text: not text.startswith("-")))
def test_any_value_is_left_out_of_the_diagnosis(value: str) -> None:
    secret = f"{value}{CANARY}{value}"
    for message in forms(secret).values():
        found = Vllm().diagnose(message)
        assert found is not None
        assert CANARY not in found.cause


@pytest.mark.parametrize(
    ("recording", "value"),
    [
        ("bad-value", "many"),
        ("unknown-dtype", "float4"),
        ("unknown-argument", "=1"),
        ("ambiguous-argument", "=1"),
        ("no-such-path", "/models/nosuch"),
    ],
)
@pytest.mark.parametrize("hostile", [CANARY, f"{CANARY} {CANARY}"])
def test_a_recorded_failure_with_a_secret_as_value_shows_it_nowhere(recording: str, value: str, hostile: str) -> None:
    text = said(recording)
    assert value in text
    spoiled = text.replace(value, f"={hostile}" if value.startswith("=") else hostile)
    found = Vllm().diagnose(spoiled)
    assert found is not None
    assert CANARY not in found.cause
    assert CANARY not in shown(spoiled)


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: Invalid value '{}' for VLLM_ATTENTION_BACKEND. Valid options: ['A'].",
        "ValueError: invalid literal for int() with base 10: '{}'",
        "ValueError: could not convert string to float: '{}'",
        "ValueError: VLLM_PORT '{}' appears to be a URI. This may be caused by a Kubernetes service discovery issue",
        "httpx.LocalProtocolError: Illegal header value b'Bearer {}\\n'",
        "1 validation error for ModelConfig\nmodel\n  Input should be 1 [type=a, input_value='{}', input_type=str]",
        "1 validation error for ModelConfig\n  Value error, no {} [type=a, input_value={{'a': '{}'}}, input_type=dict]",
        "some.Error: 1 thing is wrong [type=value_error, input_value={{'a': '{}'}}, input_type=dict]",
    ],
)
def test_a_secret_in_a_variable_that_an_engine_refuses_is_shown_nowhere(message: str) -> None:
    """Its text does not look like a key, so that only the message around it tells that it is a value."""
    assert CANARY not in shown(message.replace("{}", CANARY).replace("{{", "{").replace("}}", "}"))


def test_an_unknown_end_of_an_engine_is_still_quoted() -> None:
    assert "KeyError: 'layers'" in shown("Traceback (most recent call last):\nKeyError: 'layers'")


@pytest.mark.parametrize("option", OPTIONS)
def test_no_refusal_of_the_operator_has_the_value_of_an_argument(option: str) -> None:
    for args in (
        [f"{option}={CANARY}"],
        [option, CANARY],
        [f"{option}=http://me:{CANARY}@host"],
        [f"{option} {CANARY}"],
    ):
        for image in ("docker.io/vllm/vllm-openai:v0.32.0", "mine:1"):
            found = Vllm().check(EngineSpec(args=tuple(args)), image=image, settings=Settings())
            assert found is None or CANARY not in found.message


@pytest.mark.parametrize("argument", [f"-n{CANARY}", f"-x{CANARY}", f"-x {CANARY}", f"--no such {CANARY}"])
def test_a_value_that_follows_a_short_option_is_in_no_refusal(argument: str) -> None:
    found = Vllm().check(EngineSpec(args=(argument,)), image="docker.io/vllm/vllm-openai:v0.32.0", settings=Settings())
    assert found is None or CANARY not in found.message
