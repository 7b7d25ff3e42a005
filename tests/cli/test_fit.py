"""`infd fit`: models that fit, models that do not, and the numbers of its output."""

import codecs
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_operator.cli.main import main
from tests.testing.collected import entry

KEYS = [
    "fits",
    "reason",
    "weightsGiB",
    "activationGiB",
    "nonTorchGiB",
    "cudaGraphGiB",
    "kvCacheGiB",
    "kvCacheTokens",
    "maxConcurrency",
]
REPLAY = (
    "--weights-gib 135.43 --gpu-memory-gib 79.19 --tensor 2 --pipeline 1 --gpu-memory-utilization 0.95"
    " --max-model-len 8192 --max-num-seqs 1024 --quantization none --kv-cache-dtype auto --engine-version 0.19.0"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    known = entry("Qwen/Qwen2.5-72B-Instruct")
    assert known
    path = tmp_path / "config.json"
    path.write_text(json.dumps(known.config))
    return path


def fit(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["fit", *line.split()])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def fleets_of(capsys: pytest.CaptureFixture[str], line: str) -> list[dict[str, Any]]:
    return list(json.loads(fit(capsys, f"{line} -o json")[1])["items"])


def answer(capsys: pytest.CaptureFixture[str], line: str) -> Any:  # noqa: ANN401 - what JSON holds
    status, output, complaints = fit(capsys, f"{line} -o json")
    found = json.loads(output)
    (answers,) = found.get("items", [found])
    assert (status, complaints) == (int(not answers["fits"]), "")
    return answers


def test_fit_gives_the_kv_cache_of_a_published_startup(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    found = answer(capsys, f"--config {config} {REPLAY}")
    assert list(found) == KEYS
    assert found["fits"] is True
    assert found["weightsGiB"] == pytest.approx(67.8, abs=0.05)
    assert found["kvCacheGiB"] == pytest.approx(3.04, abs=0.03)
    assert found["kvCacheTokens"] == pytest.approx(19920, rel=0.01)


def test_a_model_whose_cuda_graphs_exceed_the_memory_does_not_fit(
    capsys: pytest.CaptureFixture[str], config: Path
) -> None:
    line = REPLAY.replace("0.95", "0.92").replace("0.19.0", "0.32.0")
    found = answer(capsys, f"--config {config} {line}")
    assert found["fits"] is False
    assert found["kvCacheGiB"] < 0
    assert "short by" in found["reason"]


@pytest.mark.parametrize(("context", "ended"), [("2048", "of these\n"), ("4096", " of 2,048 tokens\n")])
def test_only_longer_contexts_are_compared_with_2048_tokens(
    capsys: pytest.CaptureFixture[str], context: str, ended: str
) -> None:
    _, output, _ = fit(capsys, f"Qwen/Qwen3-8B --gpu-memory-gib 79.19 --max-model-len {context} -v")
    (line,) = (line for line in output.splitlines(keepends=True) if "maximum concurrency" in line)
    assert line.endswith(ended)


def test_a_config_may_begin_with_a_byte_order_mark(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    plain = answer(capsys, f"--config {config} {REPLAY}")
    config.write_bytes(codecs.BOM_UTF8 + config.read_bytes())
    assert answer(capsys, f"--config {config} {REPLAY}") == plain


def test_enforce_eager_counts_no_cuda_graph_memory(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    found = answer(capsys, f"--config {config} {REPLAY} --enforce-eager")
    assert found["cudaGraphGiB"] == 0


def test_fit_refuses_a_tensor_parallel_size_that_the_model_does_not_allow(
    capsys: pytest.CaptureFixture[str], config: Path
) -> None:
    found = answer(capsys, f"--config {config} {REPLAY.replace('--tensor 2', '--tensor 3')}")
    assert (found["fits"], found["reason"]) == (False, "64 attention heads are not divisible by 3.")


def test_a_nominal_gpu_size_counts_as_the_memory_that_cuda_reports(capsys: pytest.CaptureFixture[str]) -> None:
    boxed, real = (
        answer(capsys, f"Qwen/Qwen3-8B --gpu-memory-gib {gib} --max-model-len 8192") for gib in ("24", "23.52")
    )
    assert boxed["kvCacheGiB"] == pytest.approx(real["kvCacheGiB"], abs=0.01)


def test_a_refusal_of_fit_has_need_offer_shortfall_and_cure(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "meta-llama/Meta-Llama-3.1-70B --gpu H100:8 --tensor 2 --max-model-len 32768")
    assert found["reason"] == (
        "tensor parallel 2 on H100-80GB offers 72.8 GiB each (79.2 \N{MULTIPLICATION SIGN} 0.92); needs 77.6"
        " (weights 65.7, activation 1.3, non-torch 2.1, CUDA graphs 3.5, KV 5.0 for 32,768 tokens): short by 4.7."
        " Fits with tensor parallel 4, or an FP8 checkpoint at 2."
    )


def test_a_reason_that_all_gpus_share_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = fit(capsys, "Qwen/Qwen3-8B --gpu L4 --gpu T4 --max-model-len 999999")
    assert [line.partition(" tokens")[0] for line in output.splitlines()[3:]] == ["L4, T4: 999,999"]


def test_fit_chooses_the_smallest_group_of_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "hf://meta-llama/Meta-Llama-3.1-70B --gpu H100:8")
    assert (found["fits"], found["tensor"], found["gpusPerReplica"], found["replicasPerNode"]) == (True, 4, 4, 2)


def test_json_and_yaml_output_of_fit_have_the_same_content(capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = fit(capsys, "Qwen/Qwen3-8B --gpu L4:4 -o yaml")
    assert yaml.safe_load(output)["items"] == [answer(capsys, "Qwen/Qwen3-8B --gpu L4:4")]


def test_fit_without_a_gpu_option_tries_the_common_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _ = fit(capsys, "Qwen/Qwen3-8B")
    assert status == 0
    rows = [line.split() for line in output.splitlines()]
    assert rows[0][0] == "GPU"
    assert {"L4", "H100-80GB", "B200"} <= {row[0] for row in rows}


def test_fit_shows_the_arithmetic_with_the_origin_of_each_term(capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = fit(capsys, "Qwen/Qwen3-8B --gpu H100 -v")
    for words in (
        "weights",
        "counted from config.json",
        "activation",
        "vLLM 0.32",
        "KV cache per token: 147,456 bytes",
    ):
        assert words in output


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "Give either the name of a model on the hub or --config FILE."),
        (
            "nobody/nothing",
            "nobody/nothing: is not in the catalogue. Give --config FILE; `infd inspect -o json` writes such a file.",
        ),
        (
            "Qwen/Qwen3-80B",
            "Qwen/Qwen3-80B: is not in the catalogue. Did you mean `Qwen/Qwen3-8B`? Give --config FILE;",
        ),
        ("--config /nowhere", "/nowhere: No such file or directory."),
        ("--config /etc/passwd", "/etc/passwd: is not valid JSON."),
        ("Qwen/Qwen3-8B --gpu abacus", "--gpu: `abacus` is not known. Known kinds: T4, "),
        ("Qwen/Qwen3-8B --gpu L4:0", "--gpu: `L4:0` is not a kind and number of GPUs."),
        ("Qwen/Qwen3-8B --quantization zip", "--quantization: zip is not known."),
        ("Qwen/Qwen3-8B --kv-cache-dtype zip", "--kv-cache-dtype: `zip` is not allowed. Use auto,"),
        ("Qwen/Qwen3-8B --tensor 0", "argument --tensor: must be a number from 1 to 2,147,483,648"),
        ("Qwen/Qwen3-8B --gpu-memory-utilization 2", "--gpu-memory-utilization: must be a number over 0 up to 1"),
    ],
)
def test_fit_names_the_invalid_argument_in_the_error(
    capsys: pytest.CaptureFixture[str], line: str, complaint: str
) -> None:
    status, output, complaints = fit(capsys, line)
    assert (status, output) == (2, "")
    assert complaint in complaints
    assert "Traceback" not in complaints


def test_fit_refuses_a_config_that_is_not_a_json_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[]")
    assert fit(capsys, f"--config {path}")[2].startswith("config.json: is not a JSON object.")


RATE = "--rate 20/s --prompt 2000 --output 300 --ttft 500ms --tpot 30ms"


def test_a_rate_gets_engines_gpus_and_cost_of_the_cheapest_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"Qwen/Qwen3-8B {RATE} --gpu H100:8 --gpu L40S:4 --price H100=2.5 --price L40S=1.0"
    status, output, _ = fit(capsys, f"{line} --plot")
    assert status == 0
    head, first, second, *rest = output.splitlines()
    assert head.split()[:4] == ["GPU", "SIZES", "ENGINES", "GPUS"]
    assert first.startswith("H100-80GB")
    assert "bound by" in rest[0]
    assert second.endswith("estimated"), "nothing was measured on an L40S"
    assert any(one.startswith("Runner-up: ") for one in rest)
    assert any("#" in one for one in rest), "the plot"


def test_a_rate_as_objects_holds_the_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    prices = "--price H100=2.5 --price A100=2.5"
    best, *others = fleets_of(capsys, f"Qwen/Qwen3-8B {RATE} --gpu H100:8 --gpu A100:8 {prices}")
    assert best["replicas"] * best["requestsPerSecondPerEngine"] >= 20
    assert (best["replicas"] - 1) * best["requestsPerSecondPerEngine"] < 20
    assert best["gpus"] == best["replicas"] * best["tensor"] * best["pipeline"]
    assert best["pricePerHour"] == pytest.approx(2.5 * best["gpus"])
    assert best["tpotSeconds"] <= 0.03
    assert best["keepsObjective"] >= others[0]["keepsObjective"]
    tokens = 20 * 3600 * 2300 / 1e6
    assert best["pricePerMillionTokens"] == pytest.approx(best["pricePerHour"] / tokens, rel=0.02)
    assert all(one["pricePerHour"] >= best["pricePerHour"] for one in others)


def test_a_rate_is_also_told_for_engines_of_prompts_and_of_answers(capsys: pytest.CaptureFixture[str]) -> None:
    line = "Qwen/Qwen3-32B --rate 20/s --prompt 4000 --output 300 --percentile 99 --ttft 10s --gpu H100:8"
    (found,) = fleets_of(capsys, f"{line} --network 400")
    apart = found["disaggregation"]
    assert apart == {
        **apart,
        "gpus": 32,
        "kvBytesPerPrompt": 4000 * 256 * 1024,
        "gigabitsPerSecond": 400,
        "transferSeconds": 0.021,
        "breakEvenPromptTokens": 363,
        "refusal": "",
    }
    assert 2 * (apart["prefillReplicas"] + apart["decodeReplicas"]) == 32 < found["gpus"]
    _, output, _ = fit(capsys, f"{line.replace('99 --ttft 10s', '50 --ttft 3s')} --network 10")
    assert "The KV cache of 4,000 prompt tokens is 0.98 GiB and takes 0.84 s over 10 Gbit/s" in output
    _, output, _ = fit(capsys, "openai/gpt-oss-20b --rate 20/s --gpu H100:8")
    assert "Prefill and decode are not apart: KV caches of which layers keep different things" in output


def test_cached_prompts_need_fewer_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    cold, warm = (
        fleets_of(capsys, f"Qwen/Qwen3-8B --rate 200/s --gpu H100:8 --cached {part}")[0]["gpus"] for part in (0, 0.8)
    )
    assert warm < cold


def test_latencies_that_no_size_keeps_are_said_and_the_status_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _ = fit(capsys, "meta-llama/Meta-Llama-3.1-70B --rate 1/s --tpot 1ms --gpu H100:8")
    assert (status, output.strip()) == (
        1,
        "H100-80GB: its engine keeps the latencies not even with one request at a time.",
    )


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--rate 0/s", "--rate"),
        ("--rate 20/day", "--rate"),
        ("--rate 20/s --ttft fast", "--ttft"),
        ("--rate 20/s --cached 1.5", "--cached"),
        ("--rate 20/s --output many", "--output"),
        ("--rate 20/s --price H100", "--price"),
        ("--rate 20/s --price abacus=1", "abacus"),
    ],
)
def test_a_wrong_rate_is_named_with_the_right_form(capsys: pytest.CaptureFixture[str], line: str, named: str) -> None:
    status, _, complaint = fit(capsys, f"Qwen/Qwen3-8B {line}")
    assert status == 2
    assert named in complaint


def test_a_group_over_nodes_is_shown_with_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _ = fit(capsys, "deepseek-ai/DeepSeek-R1 --gpu H100:8")
    assert status == 0
    assert output.splitlines()[1].split()[:5] == ["H100-80GB", "yes", "8", "2", "2"]
    assert "Fits with tensor parallel 8, pipeline parallel 2 over 2 nodes on H100-80GB" in output
    status, output, _ = fit(capsys, "deepseek-ai/DeepSeek-R1 --gpu H100:8 --tensor 8 --nodes 4 -o json")
    (found,) = json.loads(output)["items"]
    assert (found["tensor"], found["pipeline"], found["nodes"]) == (8, 4, 4)


def test_nodes_for_an_engine_of_one_node_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, complaint = fit(capsys, "Qwen/Qwen3-8B --engine SGLang --nodes 2")
    assert status == 2
    assert "--nodes: SGLang runs on one node. Remove it, or use `--engine VLLM`." in complaint


def test_a_model_that_its_engine_refuses_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, complaint = fit(capsys, "Qwen/Qwen3-Embedding-0.6B --engine SGLang")
    assert status == 2
    assert "SGLang serves only models that generate text here, and this one embeds or ranks texts." in complaint


def test_the_status_is_one_if_the_model_fits_on_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert fit(capsys, "meta-llama/Meta-Llama-3.1-70B --gpu L4 --nodes 1")[0] == 1
    assert fit(capsys, "meta-llama/Meta-Llama-3.1-70B --gpu L4 --gpu H100:8")[0] == 0
