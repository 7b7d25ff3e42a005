"""The collector of an engine's spans: the administrator's default, a resource's own, and addresses that are none."""

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.process import Front, ServedModel, Timeouts
from inference_operator.engines.vllm.arguments import TRACES
from inference_operator.engines.vllm.options import SPELLINGS
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.settings import Settings
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import SizingInputs

DEFAULT = "http://otel.monitoring:4317"
OWN = "--otlp-traces-endpoint=https://own.example:4318/v1/traces"
TIMEOUTS = Timeouts(startup=1800, dns_staleness=15, drain=300)


def arguments(*asked: str, default: str = DEFAULT) -> list[str]:
    plan, served = unchecked_plan(SizingInputs(1)), ServedModel("Qwen/Qwen3-8B", "qwen")
    process = Vllm().process(EngineSpec(args=asked), plan, served, TIMEOUTS, Front(traces=default))
    return [argument for argument in process.args if "otlp" in argument]


def test_an_engine_sends_its_spans_to_the_collector_of_the_settings() -> None:
    assert TRACES in SPELLINGS
    assert arguments() == [f"{TRACES}={DEFAULT}"]


def test_without_a_collector_in_the_settings_an_engine_gets_no_argument_of_tracing() -> None:
    assert arguments(default="") == []


def test_the_collector_in_the_arguments_of_a_resource_replaces_the_one_of_the_settings() -> None:
    assert arguments(OWN) == [OWN]


@pytest.mark.parametrize("address", ["otel.monitoring:4317", "http://", "ftp://otel:4317", "http://otel:99999"])
def test_an_address_of_a_collector_that_is_no_url_is_refused_with_an_example(address: str) -> None:
    refusal = Vllm().check(EngineSpec(args=("--seed=1", f"{TRACES}={address}")), image="i", settings=Settings())
    assert refusal is not None
    assert refusal.field == "spec.engine.args[1]"
    assert refusal.problem == f"the value of `{TRACES}` is not the URL of a collector."
    assert "http://otel-collector.monitoring:4317" in refusal.message


def test_the_url_of_a_collector_is_accepted() -> None:
    assert Vllm().check(EngineSpec(args=(OWN,)), image="i", settings=Settings()) is None
