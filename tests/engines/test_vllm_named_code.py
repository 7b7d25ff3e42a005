"""Values that make vLLM import what they name are refused without the administrator's setting, in every form."""

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.vllm.named_code import CODE_VALUES, refusal_of_named_code
from inference_operator.engines.vllm.options import OPTIONS
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.settings import Settings

IMAGE = "vllm/vllm-openai:v0.32.0"
NAMING = (
    ("--distributed-executor-backend=mine.Executor",),
    ("--distributed-executor-backend", "mine.Executor"),
    ("--distributed_executor=mine.Executor",),
    ("--compilation-config.backend=mine.compile",),
    ("--compilation_config.backend", "mine.compile"),
    ("-cc.backend=mine.compile",),
    ("-cc.backend+=mine.compile",),
    ('-cc.backend="mine.compile"',),
    ("--compilation-conf.backend=mine.compile",),
    ('--compilation-config={"backend": "mine.compile"}',),
    ("--compilation-config", ' {"mode": 3, "\\u0062ackend": "mine.compile"}'),
    ('-cc={"max_cudagraph_capture_size": 1k, "backend": "mine.compile"}',),
    ("-cc.inductor_passes.post_grad=mine.run",),
    ('-cc.inductor_passes={"post_grad": "mine.run"}',),
    ('--compilation-config={"inductor_passes": {"post_grad": "mine.run"}}',),
    ("--structured-outputs-config.reasoning_parser_plugin=/models/parser.py",),
    ('--structured-outputs-config={"reasoning_parser_plugin": "/models/parser.py"}',),
)
HARMLESS = (
    ("--distributed-executor-backend=mp", "--distributed-executor-backend", "uni"),
    ("-cc.backend=inductor", '--compilation-config={"backend": "eager", "mode": 3}', "-cc.debug_dump_path=/tmp/a.b"),
    ("--structured-outputs-config.backend=xgrammar", '--structured-outputs-config={"reasoning_parser_plugin": ""}'),
    ("--compilation-config", "--compilation-config={", "-cc=3", '-cc=["mine.compile"]', "-cc=" + "[" * 100_000),
)


def test_every_value_that_names_code_belongs_to_an_option_of_vllm() -> None:
    assert {value.option for value in CODE_VALUES} <= set(OPTIONS)


@pytest.mark.parametrize("args", NAMING, ids="|".join)
def test_a_value_that_names_code_is_refused_unless_a_setting_allows_its_option(args: tuple[str, ...]) -> None:
    refusal = Vllm().check(EngineSpec(args=("--seed=1", *args)), image=IMAGE, settings=Settings())
    assert refusal is not None
    assert (refusal.reason, refusal.field) == (Reason.ARGUMENT_NOT_ALLOWED, "spec.engine.args[1]")
    assert "mine" not in refusal.message
    assert "/models" not in refusal.message
    assert refusal_of_named_code(args, allowed={value.option for value in CODE_VALUES}) is None


@pytest.mark.parametrize("args", HARMLESS, ids=lambda args: args[0])
def test_a_value_that_names_no_code_is_accepted(args: tuple[str, ...]) -> None:
    assert refusal_of_named_code(args) is None
