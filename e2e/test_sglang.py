"""SGLang's own argument parser reads what the operator gives it, and its source has the names of the tables."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.engines.sglang_tables import answer_of, tables
from e2e.test_arguments import arguments_of
from inference_operator.engines.sglang import options

SAMPLE = yaml.safe_load((stack.ROOT / "manifests" / "samples" / "sglang.yaml").read_text())
EVERYTHING = {
    "maxModelLen": 4096,
    "maxNumSeqs": 32,
    "maxNumBatchedTokens": 4096,
    "gpuMemoryUtilization": 0.8,
    "dtype": "bfloat16",
    "quantization": "fp8",
    "kvCacheDtype": "fp8",
    "cpuOffloadGiB": 2,
    "toolCallParser": "qwen25",
    "reasoningParser": "qwen3",
    "args": ["--attn-dp-size=2", "--enable-mixed-chunk"],
}
"""Every field that SGLang honours."""


def arguments(engine: dict[str, Any]) -> list[str]:
    """The arguments of the container with these fields."""
    changed = {**SAMPLE["spec"], "engine": {**SAMPLE["spec"]["engine"], **engine}, "parallelism": {"tensor": 2}}
    return arguments_of({**SAMPLE, "spec": changed})


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What SGLang's parser says of two lists, and the names in its source."""
    return answer_of([arguments({}), arguments(EVERYTHING)], tmp_path_factory.mktemp("sglang"))


def test_the_parser_reads_the_sizes_and_fields_of_a_plan(answer: dict[str, Any]) -> None:
    usual, full = answer["read"]
    assert (usual["served_model_name"], usual["tp_size"], usual["host"]) == ("qwen-sglang", 2, "")
    assert (usual["load_format"], usual["enable_metrics"], usual["tool_call_parser"]) == ("safetensors", True, "auto")
    assert "2.5" in usual["bucket_time_to_first_token"], "a bound of the alerts"
    assert 0.5 < usual["mem_fraction_static"] < 1
    assert (full["context_length"], full["max_running_requests"], full["chunked_prefill_size"]) == (4096, 32, 4096)
    assert (full["mem_fraction_static"], full["dtype"], full["quantization"]) == (0.8, "bfloat16", "fp8")
    assert (full["kv_cache_dtype"], full["cpu_offload_gb"], full["attn_dp_size"]) == ("fp8_e4m3", 2, 2)
    assert (full["tool_call_parser"], full["reasoning_parser"]) == ("qwen25", "qwen3")
    assert (full["enable_mixed_chunk"], full["trust_remote_code"]) == (True, False)


def test_every_option_has_a_class_and_every_table_is_that_of_the_source(answer: dict[str, Any]) -> None:
    assert set(options.OPTIONS.by_name) == set(answer["options"])
    for name, text in tables(answer).items():
        assert Path(options.__file__).with_name(name).read_text() == text, name
