"""Diagnosis of vLLM's error messages: recorded ones where they occur on a CPU, quoted ones where they need a GPU."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.engines.vllm.start_log import ERRORS
from inference_operator.engines.vllm.vllm import Vllm

OUTPUT = Path(__file__).parent / "vllm_output"

RECORDED: dict[str, tuple[Reason | None, str]] = {
    "heads-not-divisible": (Reason.HEADS_NOT_DIVISIBLE, "4 attention heads cannot be divided among 3 GPUs"),
    "length-beyond-model": (Reason.CONTEXT_TOO_LONG, "`spec.engine.maxModelLen: 999999` is more than the 2048 tokens"),
    "unknown-architecture": (Reason.UNSUPPORTED_ARCHITECTURE, "'NosuchForCausalLM'"),
    "unknown-model-type": (Reason.UNSUPPORTED_ARCHITECTURE, "type `nosuch`"),
    "unknown-quantization": (Reason.UNSUPPORTED_PRECISION, "no quantization `nosuch`"),
    "quantization-of-another": (Reason.UNSUPPORTED_PRECISION, "not quantised as `gptq`"),
    "quantization-not-on-device": (Reason.UNSUPPORTED_PRECISION, "`fbgemm_fp8`"),
    "unknown-dtype": (Reason.INVALID_ARGUMENT, "vLLM does not accept the value of `--dtype`. Correct it"),
    "length-beyond-cache": (
        Reason.KV_CACHE_TOO_SMALL,
        "one request of 1048576 tokens needs 0.5 GiB of KV cache and 0.06",
    ),
    "no-room-for-cache": (Reason.KV_CACHE_TOO_SMALL, "no memory is left for KV cache"),
    "utilization-beyond-free": (Reason.DEVICE_MEMORY_IN_USE, "23.54 GiB are to be used, 1.0 of the node's memory"),
    "hub-gated": (Reason.MODEL_GATED, "accepted its licence"),
    "hub-gated-no-token": (Reason.MODEL_GATED, "accepted its licence"),
    "hub-not-found": (Reason.MODEL_NOT_FOUND, "the hub has no such model"),
    "hub-bad-token": (Reason.MODEL_NOT_FOUND, "does not accept the token"),
    "hub-busy": (Reason.HUB_UNREACHABLE, "the hub does not answer"),
    "hub-offline": (Reason.HUB_UNREACHABLE, "the hub does not answer"),
    "hub-unreachable": (Reason.HUB_UNREACHABLE, "the hub does not answer"),
    "custom-code": (Reason.REMOTE_CODE_NEEDED, "the model brings code of its own"),
    "unknown-argument": (Reason.INVALID_ARGUMENT, "vLLM has no argument `--nosuch-flag`"),
    "ambiguous-argument": (Reason.INVALID_ARGUMENT, "`--max-num` abbreviates several arguments"),
    "bad-value": (Reason.INVALID_ARGUMENT, "vLLM does not accept the value of `--max-num-seqs`"),
    "broken-config": (Reason.INVALID_MODEL, "configuration is no JSON"),
    "no-tokenizer": (Reason.INVALID_MODEL, "the model has no tokenizer"),
    "no-such-path": (Reason.MODEL_NOT_FOUND, "there is no model in `/models/nosuch`"),
}
"""Reason and part of the cause for each recorded failure."""
UNKNOWN = {"no-compiler"}
"""Recorded failures that no table knows."""

TERMINATION_LINES, TERMINATION_BYTES = 80, 2048
"""The end of a log that the kubelet takes as termination message (Kubernetes 1.36, pkg/kubelet/kuberuntime)."""


def said(name: str) -> str:
    return (OUTPUT / f"{name}.txt").read_text()


def test_every_recorded_failure_has_an_expected_diagnosis_and_a_successful_start_has_none() -> None:
    assert {path.stem for path in OUTPUT.glob("*.txt")} == {*RECORDED, *UNKNOWN, "start"}
    assert [Vllm().diagnose(said(name)) for name in (*UNKNOWN, "start")] == [None] * (len(UNKNOWN) + 1)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_failure_is_diagnosed(name: str) -> None:
    reason, words = RECORDED[name]
    found = Vllm().diagnose(said(name))
    assert found is not None
    assert found.reason is reason
    assert words in found.cause
    assert "\n" not in found.cause


@pytest.mark.parametrize("name", RECORDED)
def test_the_last_lines_of_a_recorded_failure_give_its_reason_or_none(name: str) -> None:
    tail = "\n".join(said(name).splitlines()[-TERMINATION_LINES:])[-TERMINATION_BYTES:]
    found = Vllm().diagnose(tail)
    assert found is None or found.reason is RECORDED[name][0]


QUOTED: list[tuple[str, Reason, str]] = [
    (
        "ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is needed,"
        " which is larger than the available KV cache memory (9.31 GiB). Based on the available memory, the estimated"
        " maximum model length is 76272. Try increasing `gpu_memory_utilization`",
        Reason.KV_CACHE_TOO_SMALL,
        "one request of 131072 tokens needs 16.00 GiB of KV cache and 9.31 GiB are free for it. Set"
        " `spec.engine.maxModelLen: 76272` or less",
    ),
    (
        "ValueError: To serve at least one request with the models's max seq len (32768), (8.00 GiB KV cache is needed,"
        " which is larger than the available KV cache memory (0.15 GiB). Try increasing `gpu_memory_utilization`",
        Reason.KV_CACHE_TOO_SMALL,
        "one request of 32768 tokens needs 8.00 GiB of KV cache and 0.15 GiB are free for it. Set a smaller",
    ),
    (
        "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in"
        " KV cache (19104). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`",
        Reason.KV_CACHE_TOO_SMALL,
        "the KV cache has room for 19104 tokens and one request may have 131072. Set `spec.engine.maxModelLen: 19104`",
    ),
    (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        Reason.KV_CACHE_TOO_SMALL,
        "no memory is left for KV cache",
    ),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 79.25 GiB"
        " of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.22 GiB memory in use.",
        Reason.GPU_OUT_OF_MEMORY,
        "GPU 0 of 79.25 GiB had 1.02 GiB free when 1.96 GiB more were needed",
    ),
    ("RuntimeError: CUDA error: out of memory", Reason.GPU_OUT_OF_MEMORY, "a GPU ran out of memory"),
    (
        "ValueError: Free memory on device cuda:0 (10.18/79.25 GiB) on startup is less than desired GPU memory"
        " utilization (0.92, 72.91 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        Reason.DEVICE_MEMORY_IN_USE,
        "72.91 GiB are to be used, 0.92 of the device, and 10.18 of 79.25 GiB are free",
    ),
    (
        "RuntimeError: Insufficient space in /dev/shm for shared-memory ring buffer: 160 MiB required, 64 MiB free."
        " Increase /dev/shm (e.g. --shm-size or --ipc=host).",
        Reason.SHARED_MEMORY_TOO_SMALL,
        "160 MiB of shared memory are needed and 64 MiB are free",
    ),
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        Reason.SHARED_MEMORY_TOO_SMALL,
        "too small",
    ),
    (
        "ValueError: VLLM_PORT 'tcp://10.96.0.12:8000' appears to be a URI. This may be caused by a Kubernetes service"
        " discovery issue,check the warning in: https://docs.vllm.ai/",
        Reason.SERVICE_ENV_CONFLICT,
        "a Service called `vllm` puts its address into the variable `VLLM_PORT`",
    ),
    (
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has"
        " compute capability 7.5. You can use float16 instead",
        Reason.UNSUPPORTED_PRECISION,
        "bfloat16 needs a GPU of compute capability 8.0, and Tesla T4 has 7.5. Set `spec.engine.dtype: float16`",
    ),
    (
        "ValueError: The quantization method fbgemm_fp8 is not supported for the current GPU. Minimum capability: 80."
        " Current capability: 75.",
        Reason.UNSUPPORTED_PRECISION,
        "`fbgemm_fp8` needs a GPU of compute capability 80 and this one has 75",
    ),
    (
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        Reason.COMMUNICATION_FAILED,
        "(unhandled system error)",
    ),
    (
        "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:328, unhandled cuda error",
        Reason.COMMUNICATION_FAILED,
        "(unhandled cuda error)",
    ),
    (
        "RuntimeError: NCCL error: something new",
        Reason.COMMUNICATION_FAILED,
        "the GPUs cannot communicate with each other. Set",
    ),
    (
        "httpx.LocalProtocolError: Illegal header value b'Bearer x\\n'",
        Reason.MODEL_NOT_FOUND,
        "the token of the hub has a character that HTTP does not allow",
    ),
    (
        "ValueError: Invalid value 'x' for VLLM_ATTENTION_BACKEND. Valid options: ['A', 'B'].",
        Reason.INVALID_ARGUMENT,
        "the value of the variable `VLLM_ATTENTION_BACKEND`. Correct it in `spec.engine.env`",
    ),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\nmodel\n  Input should be",
        Reason.INVALID_ARGUMENT,
        "vLLM does not accept `model` in its configuration `SpeculativeConfig`",
    ),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, x",
        Reason.INVALID_ARGUMENT,
        "vLLM does not accept its configuration `ModelConfig`",
    ),
    (
        "ValueError: Invalid repository ID or local directory specified: 'nosuch'.",
        Reason.MODEL_NOT_FOUND,
        "vLLM finds no model or tokenizer of a name that it was given",
    ),
    (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver",
        Reason.DRIVER_TOO_OLD,
        "older than the engine's CUDA",
    ),
    (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 35: CUDA driver version is insufficient for"
        " CUDA runtime version",
        Reason.DRIVER_TOO_OLD,
        "older than the engine's CUDA",
    ),
    (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable"
        " to start container process: error during container init: error running hook #0: exit status 1, stderr:"
        " Auto-detected mode as 'legacy' nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please"
        " update your driver to a newer version, or use an earlier cuda container: unknown",
        Reason.DRIVER_TOO_OLD,
        "needs a GPU driver that supports CUDA 13.0, and the node's is older. Update the driver, or set"
        " `spec.engine.image` to the same version with `-cu129`",
    ),
    (
        "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn"
        " on verbose logging to help debug the issue.",
        Reason.GPU_NOT_VISIBLE,
        "Set `spec.scheduling.runtimeClassName: nvidia`",
    ),
    (
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file",
        Reason.GPU_NOT_VISIBLE,
        "cannot use the node's driver (load library failed",
    ),
    (
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        Reason.GPU_NOT_SUPPORTED,
        "the image has no code for this kind of GPU",
    ),
    (
        "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
        Reason.GPU_HARDWARE_ERROR,
        "a GPU reports an uncorrectable ECC error. Cordon the node, then reset or replace the GPU",
    ),
    (
        "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution",
        Reason.GPU_HARDWARE_ERROR,
        "an uncorrectable NVLink error",
    ),
    (
        "Unable to determine the device handle for GPU0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU",
        Reason.GPU_HARDWARE_ERROR,
        "a GPU of the node has failed (GPU is lost)",
    ),
    (
        "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        Reason.GPU_HARDWARE_ERROR,
        "a GPU of the node has failed (Xid (PCI:0000:41:00): 79)",
    ),
    (
        "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128.",
        Reason.WEIGHTS_NOT_DIVISIBLE,
        "192 rows or columns of a weight matrix are left for each GPU, which is no multiple of the quantization's blocks of"
        " 128. Set a smaller `spec.parallelism.tensor`",
    ),
    (
        "ValueError: Weight input_size_per_partition = 320 is not divisible by weight quantization block_k = 128.",
        Reason.WEIGHTS_NOT_DIVISIBLE,
        "320 rows or columns",
    ),
    (
        "OSError: [Errno 28] No space left on device: '/home/vllm/.cache/huggingface/hub/tmp'",
        Reason.DISK_FULL,
        "the node's disk is full",
    ),
    (
        "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'",
        Reason.SHARED_MEMORY_TOO_SMALL,
        "the shared memory at",
    ),
    (
        "openai_harmony.HarmonyError: error downloading or loading vocab file: failed to download or load vocab file",
        Reason.HUB_UNREACHABLE,
        "set `TIKTOKEN_ENCODINGS_BASE` to it in `spec.engine.env`",
    ),
    (
        "RuntimeError: vLLM failed to compile the model. The most likely reason for this is that a previous compilation"
        " failed, leading to a corrupted compilation artifact. We recommend trying to remove ~/.cache/vllm",
        Reason.KERNELS_BROKEN,
        "the compiled kernels of an earlier start are broken",
    ),
    (
        '  File "/usr/lib/python3.12/site-packages/triton/runtime/cache.py", line 69, in get_group\n'
        "    grp_data = json.load(f)\n               ^^^^^^^^^^^^\n"
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        Reason.KERNELS_BROKEN,
        "the compiled kernels of an earlier start are broken",
    ),
    (
        "OSError: /home/vllm/.cache/flashinfer/0.6/90a/cached_ops/batch_prefill/batch_prefill.so: file too short",
        Reason.KERNELS_BROKEN,
        "a Job deletes them, once no other engine serves with them",
    ),
    (
        "ImportError: /home/vllm/.cache/triton/ABC/__triton_launcher.cpython-312.so: invalid ELF header",
        Reason.KERNELS_BROKEN,
        "the compiled kernels of an earlier start are broken",
    ),
    (
        "torch._dynamo.exc.BackendCompilerFailed: backend='<vllm.compilation.backends.VllmBackend object at 0x7f>'"
        " raised:\n(EngineCore_DP0 pid=3835890) UnpicklingError: pickle data was truncated",
        Reason.KERNELS_BROKEN,
        "the compiled kernels of an earlier start are broken",
    ),
    (
        "torch._dynamo.exc.BackendCompilerFailed: backend='<vllm.compilation.backends.VllmBackend object at 0x7f>'"
        " raised:\nEOFError: Ran out of input",
        Reason.KERNELS_BROKEN,
        "the compiled kernels of an earlier start are broken",
    ),
    (
        'File "/home/vllm/.cache/torchinductor/ab/cab3.py", line 31, in <module>\n'
        "(EngineCore pid=7) ERROR 11-21 15:43:35 [core.py:1]     async_compile.wait(globals())\n"
        '(EngineCore pid=7) ERROR 11-21 15:43:35 [core.py:1]   File "/usr/lib/python3.12/pickle.py", line 9, in load\n'
        "(EngineCore pid=7) ERROR 11-21 15:43:35 [core.py:1] EOFError: Ran out of input",
        Reason.KERNELS_BROKEN,
        "the compiled kernels of an earlier start are broken",
    ),
    (
        "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (381). Each decode sequence requires one"
        " Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most 381 or increase"
        " gpu_memory_utilization.",
        Reason.KV_CACHE_TOO_SMALL,
        "a batch may have 1024 sequences, and the KV cache has 381 blocks for the states of their layers."
        " Set `spec.engine.maxNumSeqs: 381` or less",
    ),
    (
        "vllm serve: error: unrecognized arguments: --nosuch",
        Reason.INVALID_ARGUMENT,
        "vLLM has no argument `--nosuch`",
    ),
]


SURVIVED = [
    "WARNING 10-02 20:00:03 [decorators.py:321] Compiling model again due to a load failure from"
    " /home/vllm/.cache/vllm/torch_compile_cache/torch_aot_compile/79ac/rank_0_0/model,"
    " reason: /home/vllm/.cache/torchinductor/ab/cab3.so: file too short",
    "WARNING 10-02 20:00:03 [decorators.py:321] Cannot load aot compilation from path"
    " /home/vllm/.cache/vllm/torch_compile_cache/torch_aot_compile/79ac/rank_0_0/model, error: Ran out of input",
    "W1002 20:00:03 torch/_inductor/codecache.py:1250] fx graph cache unable to load compiled graph\n"
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.12/site-packages/torch/_inductor/codecache.py", line 1244, in iterate_over_candidates\n'
    "    yield pickle.loads(content), content\n          ^^^^^^^^^^^^^^^^^^^^^\n"
    "_pickle.UnpicklingError: pickle data was truncated",
    "INFO 10-02 20:00:02 [backends.py:462] Using cache directory: /home/vllm/.cache/vllm/torch_compile_cache/7a/rank_0_0\n"
    "EOFError: Ran out of input",
    '  File "/home/vllm/.cache/torchinductor/ab/cab3.py", line 31, in <module>\nValueError: other\n'
    "Traceback (most recent call last):\nEOFError: Ran out of input",
    "OSError: /usr/lib/libcuda.so.1: file too short",
]
"""What an engine logs of files that it compiles again, and errors of files that are no compiled kernels."""


@pytest.mark.parametrize("text", SURVIVED)
def test_what_an_engine_survives_or_what_concerns_other_files_means_no_broken_kernels(text: str) -> None:
    found = Vllm().diagnose(f"{text}\n")
    assert found is None or found.reason is not Reason.KERNELS_BROKEN


@pytest.mark.parametrize(("text", "reason", "words"), QUOTED)
def test_a_quoted_failure_is_diagnosed(text: str, reason: Reason, words: str) -> None:
    for log in (
        text,
        f"(EngineCore pid=7) ERROR 11-21 15:43:35 [core.py:1] {text}\nTraceback\nRuntimeError: see above\n",
    ):
        found = Vllm().diagnose(log)
        assert found is not None
        assert found.reason is reason
        assert words in found.cause


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INFO 11-21 15:43:35 [api_server.py:1] Application startup complete.",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "INFO config: model='m', trust_remote_code=False, dtype=torch.float32, quantization=None",
        "Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'layers'",
    ],
)
def test_a_log_without_a_known_error_has_no_diagnosis(text: str) -> None:
    assert Vllm().diagnose(text) is None


def test_every_known_error_has_an_explained_reason_and_a_cause_built_from_its_match_groups() -> None:
    for known in ERRORS:
        assert EXPLANATIONS[known.reason].condition is ConditionType.RECONCILING
        assert set(re.findall(r"\{(\w+)\}", known.cause)) <= set(known.wording.groupindex)


def test_a_diagnosis_takes_time_linear_in_the_length_of_the_text() -> None:
    for piece in ("a", "(", "model's max seq len (1), ", "validation error for X\n", "quantization method a ", "'"):
        Vllm().diagnose(piece * (16384 // len(piece)))


FREE_TEXT = re.compile(r"\[\^|(?<!\\)\.(?![^\[]*\])|\\S|\\W|\\D")
"""What matches any character, or all but a few."""


def groups_of(pattern: str) -> Iterator[tuple[str, str]]:
    """The named groups of a pattern with their own patterns."""
    for start in re.finditer(r"\(\?P<(\w+)>", pattern):
        depth, end, in_set = 1, start.end(), False
        while depth:
            step = pattern[end]
            end += 2 if step == "\\" else 1
            if step in "[]":
                in_set = step == "["
            elif not in_set:
                depth += {"(": 1, ")": -1}.get(step, 0)
        yield start[1], pattern[start.end() : end - 1]


def test_no_cause_quotes_text_that_a_value_could_fill() -> None:
    for known in ERRORS:
        for name, group in groups_of(known.wording.pattern):
            assert not FREE_TEXT.search(group), f"{known.reason} {name}: {group}"
