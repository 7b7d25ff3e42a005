"""SGLang's arguments, memory, metrics, messages and start, from its source and from public logs."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.options import Class, unsafe_arguments
from inference_operator.engines.process import EngineProcess, Front
from inference_operator.engines.sglang import launch, memory
from inference_operator.engines.sglang.metrics import FIRST_TOKEN_BUCKETS
from inference_operator.engines.sglang.options import CLASSES, OPTIONS
from inference_operator.engines.sglang.sglang import LAUNCH, PROGRAMS, SGLang
from inference_operator.engines.start_log import LoadProgress, Phase
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.facts import Attention, Kernel
from inference_operator.settings import Settings
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.plan import checked_plan, unchecked_plan
from inference_operator.sizing.shape import ParallelSizes, Shape, SizingInputs
from tests.engines.contract import FACTS, H100, SERVED, TIMEOUTS
from tests.engines.test_contract import PAGE as VLLM_PAGE
from tests.engines.test_contract import SGLANG_PAGE
from tests.sizing.pools import model, pool

ENGINE = SGLang()
H100_GIB = H100.memory_gib
SECONDS = 30
NO_ROOM = (
    "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.88. Raise"
    " --mem-fraction-static above 0.912 (minimum viable = 1 - available/pre = 0.9112). If using speculative"
)
TOO_LONG = (
    "ValueError: Warning: User-specified context_length (50000) is greater than the derived context_length (40960)."
    " This may lead to incorrect model outputs or CUDA errors."
)


def made(spec: EngineSpec, *, host: str = "::") -> EngineProcess:
    return ENGINE.process(spec, unchecked_plan(SizingInputs(1)), SERVED, TIMEOUTS, Front(host))


# Options


def test_each_option_has_one_class_and_only_those_that_users_may_set_are_taken() -> None:
    for one in OPTIONS.by_name.values():
        argument = one.name if one.name in OPTIONS.flags else f"{one.name}=1"
        assert (OPTIONS.refusal([argument]) is not None) == (one.kind is Class.MANAGED)
        assert bool(unsafe_arguments([argument], CLASSES)) == (one.kind is Class.PODS)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--trust-remote-code", "here SGLang runs no code of a model"),
        ("--enable-custom-logit-processor", "managed by the operator"),
        ("--lora-paths=/a", "managed by the operator"),
        ("--tool-server=demo", "managed by the operator"),
        ("--tp=2", "takes no such option here"),
        ("--mem-frac=0.5", "takes no such option here"),
        ("--model-impl=transformers", "managed by the operator"),
        ("--json-model-override-args={}", "managed by the operator"),
        ("--attn-dp-size= 8", "needs a whole number from 1 on"),
        ("--ep-size=0", "needs a whole number from 1 on"),
        ("--enable-dp-attention", "Use `--attn-dp-size=N`."),
        ("--enable-mixed-chunk=--model-path", "takes no value"),
        ("--schedule-policy", "has no value"),
    ],
)
def test_what_could_load_code_or_files_or_be_read_as_another_option_is_refused(argument: str, said: str) -> None:
    refusal = ENGINE.check(EngineSpec(args=(argument,)), image="", settings=Settings())
    assert refusal is not None
    assert said in refusal.message


def test_no_option_that_users_may_set_names_a_file_a_host_a_module_or_another_model() -> None:
    """By its name; those of the class `pods` take JSON or show requests."""
    usable = {name for name, one in OPTIONS.by_name.items() if one.kind is not Class.MANAGED}
    words = re.compile(r"path|file|dir\b|url|host|-port\b|addr|endpoint|module|plugin|impl|load|hook|server|lora|model")
    harmless = {name for name in usable if name.startswith(("--weight-loader-", "--load-balance-"))}
    assert {name for name in usable - harmless if words.search(name)} == set()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architecture": "DeepseekV4ForCausalLM"}, "names one architecture, of a text model"),
        ({"architecture": ""}, "names one architecture"),
        ({"other_architectures": ("Qwen2_5_VLForConditionalGeneration",)}, "names one architecture"),
        ({"has_vision": True}, "that read nothing but text"),
        ({"is_pooling": True}, "that generate text here"),
        ({"quantization": replace(FACTS.quantization, kernel=Kernel.BITSANDBYTES)}, "another loader"),
    ],
)
def test_a_model_that_could_read_files_or_bring_code_is_refused(changes: dict[str, Any], said: str) -> None:
    assert ENGINE.check_facts(FACTS) is None
    refusal = ENGINE.check_facts(replace(FACTS, **changes))
    assert refusal is not None
    assert said in refusal.message


def test_a_step_takes_as_long_as_in_vllm_and_is_an_estimate() -> None:
    shape, facts = Shape(ParallelSizes(2)), model("openai/gpt-oss-120b")
    own, vllm = (engine.on_gpus("", H100).step_costs(facts, shape) for engine in (ENGINE, Vllm()))
    assert own
    assert vllm
    assert (own.dense, own.experts, own.fixed, own.token) == (vllm.dense, vllm.experts, vllm.fixed, vllm.token)
    assert (own.estimated, vllm.estimated) == (True, False)
    assert ENGINE.on_gpus("", H100).step_costs(facts, replace(shape, attention_groups=2)) is None


def test_a_served_name_with_a_colon_and_a_batch_without_whole_pages_are_refused() -> None:
    named = ENGINE.check_model(EngineSpec(), ModelSpec(source="hf://a/b", servedName="qwen:8b"), cached=False)
    assert named is not None
    assert named.field == "spec.model.servedName"
    spec = EngineSpec(maxNumBatchedTokens=1000)
    batch = ENGINE.check(spec, image="", settings=Settings())
    assert batch is not None
    assert batch.cure == "Use a multiple of 256."


def test_variables_of_sglangs_own_need_the_administrator() -> None:
    spec = EngineSpec(env=[{"name": "SGLANG_LOGGING_CONFIG_PATH", "value": "/a"}])
    refusal = ENGINE.check(spec, image="", settings=Settings())
    assert refusal is not None
    assert refusal.reason is Reason.ARGUMENT_NOT_ALLOWED
    allowed = Settings(allowed_environment=["SGLANG_LOGGING_CONFIG_PATH"])
    assert ENGINE.check(spec, image="", settings=allowed) is None


def test_fields_become_sglangs_names_and_parsers_follow_the_chat_template() -> None:
    args = made(EngineSpec(kvCacheDtype="fp8", quantization="fp8", reasoningParser="None", cpuOffloadGiB=4)).args
    assert {"--kv-cache-dtype=fp8_e4m3", "--quantization=fp8", "--cpu-offload-gb=4", "--tool-call-parser=auto"} <= {
        *args
    }
    assert not [one for one in args if one.startswith("--reasoning-parser")]


def test_it_listens_on_both_families_where_pods_have_both() -> None:
    """The server's socket for `::` takes no IPv4."""
    assert "--host=" in made(EngineSpec()).args
    assert "--host=0.0.0.0" in made(EngineSpec(), host="0.0.0.0").args  # noqa: S104 - in a pod of its own


# Memory


@pytest.mark.parametrize(
    ("fraction", "after", "weights", "cache"),
    [
        # sgl-project/sglang#18263: mem_fraction_static 0.911, "initial available_bytes 204.63 GB"
        (0.911, 230.20, 56.98, 204.63),
        # SemiAnalysisAI/InferenceX#2128: the least fraction for the weights is 0.9113, where nothing is left
        (0.9113, 12.25, 125.65, 0.0),
    ],
)
def test_the_kv_cache_is_what_public_logs_show(fraction: float, after: float, weights: float, cache: float) -> None:
    assert memory.cache_gib(fraction, after + weights, weights) == pytest.approx(cache, abs=0.02)


def test_the_engine_gets_the_fraction_that_its_size_was_computed_with() -> None:
    found = choose(FACTS, [H100], lambda offer: ENGINE.on_gpus("", offer), SizingInputs())
    assert isinstance(found, GpuPlan), found
    plan = checked_plan(found, FACTS, downloads=False)
    args = ENGINE.process(EngineSpec(), plan, SERVED, TIMEOUTS).args
    (fraction,) = [float(one.partition("=")[2]) for one in args if one.startswith("--mem-fraction-static=")]
    reserve = memory.reserve_gib(FACTS, found.shape, H100_GIB)
    assert fraction == pytest.approx(1 - reserve / H100_GIB, abs=0.002)
    assert reserve >= memory.LARGE_RESERVE_MIB / 1024
    free = H100_GIB - memory.CONTEXT_GIB
    assert found.budget.kv_cache == pytest.approx(memory.cache_gib(fraction, free, found.budget.weights), abs=0.1)
    assert f"--context-length={plan.max_model_len}" in args


def test_a_fraction_of_the_user_counts_and_must_leave_room_for_graphs() -> None:
    on_gpus = ENGINE.on_gpus("", H100)
    usual = on_gpus.budget(FACTS, Shape(context=8192))
    asked = on_gpus.budget(FACTS, Shape(context=8192, utilization=0.95))
    assert asked.fits
    assert asked.kv_cache > usual.kv_cache
    assert not on_gpus.budget(FACTS, Shape(context=8192, utilization=0.999)).fits


def test_data_parallel_attention_gives_each_group_a_cache_and_needs_a_divisor() -> None:
    """Latent attention gains most: otherwise each rank has the same cache."""
    latent = model("deepseek-ai/DeepSeek-V2-Lite")
    on_gpus = ENGINE.on_gpus("", H100)
    shared, divided = (
        on_gpus.budget(latent, Shape(ParallelSizes(8), context=8192, attention_groups=groups)) for groups in (1, 8)
    )
    assert divided.weights > shared.weights, "each group has whole attention"
    assert divided.concurrency > 5 * shared.concurrency
    spec = EngineSpec(args=("--attn-dp-size=8",))
    assert on_gpus.allowed_sizes(latent, ENGINE.shape(spec), 8) == (8,)
    said = on_gpus.broken_rule(latent, Shape(ParallelSizes(4), attention_groups=8))
    assert said == "4 GPUs cannot be divided into 8 groups of data parallel attention."


def test_models_with_recurrent_states_and_pipelines_are_not_sized() -> None:
    on_gpus = ENGINE.on_gpus("", H100)
    (group,) = FACTS.groups
    states = replace(FACTS, groups=(group, replace(group, attention=Attention.STATE)))
    assert on_gpus.unable(states, Shape()) == memory.NO_STATES
    said = on_gpus.broken_rule(FACTS, Shape(ParallelSizes(1, pipeline=2)))
    assert said == "The operator sizes SGLang without pipelines."


def test_a_large_model_is_divided_over_gpus() -> None:
    large = model("meta-llama/Meta-Llama-3.1-70B")
    found = choose(large, pool("H100:8"), lambda offer: ENGINE.on_gpus("", offer), SizingInputs())
    assert isinstance(found, GpuPlan), found
    assert found.shape.parallel.tensor in (4, 8)
    sized = ENGINE.process(EngineSpec(), checked_plan(found, large, downloads=False), SERVED, TIMEOUTS)
    assert f"--tp-size={found.shape.parallel.tensor}" in sized.args


# Metrics


def test_first_tokens_are_counted_within_the_bounds_of_vllm() -> None:
    """The alerts' queries name one of them, for all engines."""
    own = Vllm().sample(VLLM_PAGE)
    assert own is not None
    assert own.ttft is not None
    assert [float(bound) for bound in FIRST_TOKEN_BUCKETS] == list(own.ttft.bounds[:-1])


def test_the_page_gives_the_figures_of_requests_tokens_and_latencies() -> None:
    sample = ENGINE.sample(SGLANG_PAGE)
    assert sample is not None
    assert (sample.model, sample.running, sample.waiting) == ("qwen", 2, 1)
    assert (sample.kv_cache_tokens, sample.finished) == (16384, 4)
    assert sample.ttft is not None
    assert (sample.ttft.counts[-1], round(sample.ttft.total, 2)) == (4, 0.72)
    tokens = sample.tokens
    assert tokens is not None
    assert (tokens.requests, tokens.prompt, tokens.answer, tokens.cached) == (4, 400, 104, 256)
    load = ENGINE.load(SGLANG_PAGE)
    assert load is not None
    assert (load.cache_usage, load.preemptions, load.answered, load.generated) == (0.25, 1, 4, 104)


def test_the_numbers_of_several_groups_of_attention_add_up_and_the_cache_is_that_of_one_rank() -> None:
    other = SGLANG_PAGE.replace('tp_rank="0"', 'tp_rank="4",dp_rank="1"')
    own = [line for line in other.splitlines() if "dp_rank" in line]
    sample = ENGINE.sample(SGLANG_PAGE + "\n".join(own) + "\n")
    assert sample is not None
    assert (sample.running, sample.waiting, sample.kv_cache_tokens) == (4, 2, 16384)


def test_a_queue_beside_no_running_request_is_an_old_number() -> None:
    sample = ENGINE.sample("sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 3.0\n")
    assert sample is not None
    assert sample.unfinished == 0


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_a_number_of_requests_that_is_none_is_no_sample(value: str) -> None:
    page = f"sglang:num_running_reqs {value}\nsglang:num_queue_reqs 1.0\n"
    assert ENGINE.sample(page) is None
    assert ENGINE.load(page) is None


# The log


@pytest.mark.parametrize(
    ("log", "reason", "said"),
    [
        (
            NO_ROOM,
            Reason.KV_CACHE_TOO_SMALL,
            "with a fraction of 0.88. Set `spec.engine.gpuMemoryUtilization` above 0.9112",
        ),
        (
            "launch_server.py: error: argument --attn-dp-size/--attention-data-parallel-size: invalid int value: 'x'",
            Reason.INVALID_ARGUMENT,
            "does not take the value of `--attn-dp-size`",
        ),
        (
            "ValueError: Model architectures ['OtterForCausalLM'] are not supported for now. Supported architectures:",
            Reason.UNSUPPORTED_ARCHITECTURE,
            "does not know the architecture OtterForCausalLM",
        ),
        (
            TOO_LONG,
            Reason.CONTEXT_TOO_LONG,
            "is 50000, and the model has 40960 tokens",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", Reason.GPU_OUT_OF_MEMORY, "memory is not enough"),
    ],
)
def test_the_cause_of_an_end_is_named(log: str, reason: Reason, said: str) -> None:
    found = ENGINE.diagnose(log)
    assert found is not None
    assert (found.reason, said in found.cause) == (reason, True), found.cause


def test_the_phases_of_a_start_follow_its_log() -> None:
    lines = (
        "sglang is using nccl==2.28.9\n",
        "[2026-11-26 10:00:01 TP0] Load weight begin. avail mem=78.40 GB\n",
        "[2026-11-26 10:00:09 TP0] Memory pool end. avail mem=12.01 GB\n",
        "[2026-11-26 10:00:10 TP0] Capture decode CUDA graph begin. backend=full, num_tokens_per_bs=1\n",
    )
    logs = ("".join(lines[:count]) for count in range(5))
    phases = [None, Phase.CONNECTING, Phase.LOADING, Phase.WARMING_UP, Phase.CAPTURING]
    assert [ENGINE.phase(log) for log in logs] == phases
    loading = "Multi-thread loading shards:  75% Completed | 3/4 [00:03<00:01,  1.00it/s]\r"
    assert ENGINE.load_progress(loading) == LoadProgress(70)


# The start


def launched(folder: Path, source: str) -> subprocess.Popen[str]:
    """The program that starts SGLang, with another program in its place: SGLang itself is not installed."""
    package = folder / "sglang"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(source)
    command = [sys.executable, "-c", PROGRAMS[LAUNCH], "--tp-size=2"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_a_start_that_is_told_to_stop_ends_at_once(tmp_path: Path) -> None:
    loading = "import sys, time\nprint(__name__, *sys.argv[1:], flush=True)\ntime.sleep(60)\n"
    with launched(tmp_path, loading) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "__main__ --tp-size=2\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == launch.BY_SIGNAL + signal.SIGTERM


def test_a_server_that_finishes_its_requests_ends_well(tmp_path: Path) -> None:
    draining = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(0))\nprint(flush=True)\nsignal.pause()\n"
    with launched(tmp_path, draining) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("source", "status"), [("import sys\nsys.exit(0)", 1), ("import os\nos.kill(os.getpid(), 9)", 137)]
)
def test_an_end_that_nobody_asked_for_is_an_error(tmp_path: Path, source: str, status: int) -> None:
    """SGLang ends itself with status 0, or by SIGKILL, when one of its processes fails."""
    with launched(tmp_path, source) as process:
        assert process.wait(SECONDS) == status
