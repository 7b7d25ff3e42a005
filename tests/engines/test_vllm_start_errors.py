"""Errors of vLLM about a model, an argument and a GPU that do not go together: each has a cause and a cure."""

import re

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.engines.start_log import known_errors
from inference_operator.engines.vllm.flags import MANAGED_FLAGS, REMOVED_FLAGS
from inference_operator.engines.vllm.start_log import ERRORS
from inference_operator.engines.vllm.vllm import Vllm

SAID: list[tuple[str, Reason, str]] = [
    (
        "The model type 'gemma3' does not support float16. Reason: Numerical instability. Please use bfloat16.",
        Reason.UNSUPPORTED_PRECISION,
        "models of the type `gemma3` do not run in float16",
    ),
    (
        "torch.float16 is not supported for quantization method mxfp4. Supported dtypes: [torch.bfloat16]",
        Reason.UNSUPPORTED_PRECISION,
        "the quantization `mxfp4` is not computed in float16",
    ),
    (
        "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
        Reason.UNSUPPORTED_PRECISION,
        "Set `spec.engine.kvCacheDtype: fp8`",
    ),
    (
        "FP8 KV cache is not supported by the Triton attention backend on NVIDIA A100-SXM4-80GB (compute capability 8.0);"
        " native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16.",
        Reason.UNSUPPORTED_PRECISION,
        "and this one has 8.0",
    ),
    (
        "FP8 KV cache is not supported by the Triton attention backend on Tesla T4 (compute capability 7.5); native FP8"
        " (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype float16.",
        Reason.UNSUPPORTED_PRECISION,
        "Set `spec.engine.kvCacheDtype: float16`",
    ),
    (
        "bfloat16 KV cache is not supported by the Triton MLA backend on Tesla T4 (compute capability 7.5); bfloat16"
        " requires SM80+. Re-run with --kv-cache-dtype float16.",
        Reason.UNSUPPORTED_PRECISION,
        "Set `spec.engine.kvCacheDtype: float16`",
    ),
    (
        "bfloat16 KV cache is not supported on Tesla T4 (compute capability 7.5); bfloat16 requires SM80+.",
        Reason.UNSUPPORTED_PRECISION,
        "Set `spec.engine.kvCacheDtype: float16`",
    ),
    (
        "No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576, use_mla=True)."
        " Reasons: {FLASHMLA_SPARSE: [compute capability not supported]}.",
        Reason.UNSUPPORTED_PRECISION,
        "no kernel on this GPU computes the attention of this model. Use a newer GPU",
    ),
    (
        "No valid attention backend found for cuda with AttentionSelectorConfig(head_size=80)."
        " Reasons: {FLASH_ATTN: [kv_cache_dtype not supported]}.",
        Reason.UNSUPPORTED_PRECISION,
        "Remove `spec.engine.kvCacheDtype`",
    ),
    (
        "No valid attention backend found for NVIDIA A100-SXM4-80GB with AttentionSelectorConfig(head_size=64). Reasons:"
        " {FLASH_ATTN: [kv_cache_dtype not supported], FLASHINFER: [attention sinks not supported, compute capability"
        " not supported]}.",
        Reason.UNSUPPORTED_PRECISION,
        "Remove `spec.engine.kvCacheDtype`",
    ),
    (
        "No valid attention backend found for NVIDIA H100 80GB HBM3 with AttentionSelectorConfig(head_size=576). Reasons:"
        " {CUTLASS_MLA: [dtype not supported, compute capability not supported], TRITON_MLA: [dtype not supported]}.",
        Reason.UNSUPPORTED_PRECISION,
        "Remove `spec.engine.dtype`",
    ),
    (
        "No valid attention backend found for NVIDIA A100-SXM4-80GB with AttentionSelectorConfig(block_size=8). Reasons:"
        " {FLASH_ATTN: [block_size not supported], FLASHMLA: [block_size not supported, compute capability not"
        " supported]}.",
        Reason.INVALID_ARGUMENT,
        "Remove `--block-size` in `spec.engine.args`",
    ),
    (
        "Selected backend AttentionBackendEnum.FLASHMLA is not valid for this configuration. Reason: ['x']",
        Reason.INVALID_ARGUMENT,
        "the attention backend `FLASHMLA` does not compute this model here",
    ),
    ("AssertionError: 12 is not divisible by 8", Reason.HEADS_NOT_DIVISIBLE, "12 heads, rows or columns"),
    (
        "MXFP4 requires input_size_per_partition (1076) to be divisible by 32.",
        Reason.WEIGHTS_NOT_DIVISIBLE,
        "1076 inputs of a weight matrix",
    ),
    (
        "Weight input_size_per_partition = 192 is not divisible by group_size = 128. This happens when",
        Reason.WEIGHTS_NOT_DIVISIBLE,
        "192 inputs of a weight matrix",
    ),
    (
        "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (4) to be greater than the model's total"
        " number of KV heads (8). Increase",
        Reason.INVALID_ARGUMENT,
        "more GPUs than the 8 KV heads of the model, and has 4",
    ),
    (
        "`--decode-context-parallel-size` (8) exceeds the maximum supported value (2) for `--tensor-parallel-size` (8)",
        Reason.INVALID_ARGUMENT,
        "Set `--decode-context-parallel-size=2`",
    ),
    (
        "The model's number of query heads per KV head (5) must be divisible by `--decode-context-parallel-size` (2) for",
        Reason.INVALID_ARGUMENT,
        "5 attention heads for each KV head",
    ),
    (
        "Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface.",
        Reason.CONFIGURATION_REFUSED,
        "Remove `spec.parallelism.pipeline`",
    ),
    (
        "EPLB currently only supports even distribution of experts across ranks. Got 131 experts and 8 EP ranks.",
        Reason.INVALID_ARGUMENT,
        "131 experts with their copies cannot be divided among 8 ranks",
    ),
    ("enable_expert_parallel must be True to use EPLB.", Reason.INVALID_ARGUMENT, "`--enable-expert-parallel`"),
    (
        "Number of experts in the model must be greater than 0 when expert parallelism is enabled.",
        Reason.INVALID_ARGUMENT,
        "the model has no experts",
    ),
    (
        "Chunked MM input disabled but max_tokens_per_mm_item (1024) is larger than max_num_batched_tokens (512). Please",
        Reason.INVALID_ARGUMENT,
        "Set `spec.engine.maxNumBatchedTokens: 1024` or more",
    ),
    (
        "max_num_batched_tokens (128) must be greater than or equal to max_num_seqs (256).",
        Reason.INVALID_ARGUMENT,
        "Set `spec.engine.maxNumBatchedTokens: 256` or more",
    ),
    (
        "Failed to promote local KV cache specs to one unified type.",
        Reason.CONFIGURATION_REFUSED,
        "Remove `--disable-hybrid-kv-cache-manager`",
    ),
    (
        "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token.",
        Reason.KV_CACHE_TOO_SMALL,
        "no memory is left",
    ),
    (
        "CUDAGraphMode.FULL is not supported with FlexAttentionBackend backend ( support:NEVER) ; please try"
        " cudagraph_mode=PIECEWISE",
        Reason.CONFIGURATION_REFUSED,
        "of the mode FULL are not possible with FlexAttentionBackend",
    ),
    (
        "Target and draft model should have the same vocabulary size. Target model vocab_size=152064. Draft model"
        " vocab_size=151936.",
        Reason.INVALID_ARGUMENT,
        "another vocabulary than the 152064 tokens of the model. Name another one in `spec.engine.speculative.model`",
    ),
    (
        "num_speculative_tokens:3 must be divisible by n_predict=2",
        Reason.INVALID_ARGUMENT,
        "3 speculative tokens are no multiple of the 2 layers",
    ),
    (
        "A speculative model was provided, but `num_speculative_tokens` was not provided",
        Reason.INVALID_ARGUMENT,
        "Set `spec.engine.speculative.tokens`",
    ),
    ("Unsupported speculative method: 'mtp'", Reason.INVALID_ARGUMENT, "no speculative decoding by this method"),
    (
        "Model does not support EAGLE3 interface but aux_hidden",
        Reason.CONFIGURATION_REFUSED,
        "no EAGLE-3 for this model",
    ),
    ("This model does not support `--runner generate`.", Reason.INVALID_ARGUMENT, "the model does not generate text"),
    (
        "This model does not support `--runner pooling`. You can pass `--convert <a>",
        Reason.INVALID_ARGUMENT,
        "Add `--convert`",
    ),
    ("RuntimeError: Unsupported task: 'score' Supported tasks: ['embed']", Reason.INVALID_ARGUMENT, "has no such task"),
    ("Model a/b does not support any pooling tasks. See", Reason.INVALID_ARGUMENT, "no embeddings or scores"),
    (
        "KDA recurrent state supports only auto, float32, and bfloat16; got x",
        Reason.INVALID_ARGUMENT,
        "float32 or bfloat16",
    ),
]


@pytest.mark.parametrize(("said", "reason", "words"), SAID, ids=[said[:40] for said, _, _ in SAID])
def test_an_error_of_a_start_has_a_cause_with_a_cure(said: str, reason: Reason, words: str) -> None:
    log = f"(EngineCore pid=90) ERROR 11-28 23:10:04 [core.py:1345] ValueError: {said}\n"
    found = Vllm().diagnose(log)
    assert found, said
    assert (found.reason, words in found.cause) == (reason, True), found.cause


def test_no_cause_repeats_what_a_stranger_writes() -> None:
    secret = "hunter2"  # noqa: S105 - a stranger's word
    for said in (
        f"No valid attention backend found for {secret} with x. Reasons: {secret}: [compute capability not supported]",
        f"RuntimeError: Unsupported task: {secret!r} Supported tasks: [{secret}]",
        f"Model {secret} does not support any pooling tasks",
        f"KDA recurrent state supports only auto, float32, and bfloat16; got {secret}",
    ):
        found = Vllm().diagnose(f"ValueError: {said}\n")
        assert found
        assert secret not in found.cause


@pytest.mark.parametrize(
    "said",
    [
        "(APIServer pid=1) ValueError: Unsupported task: 'score' Supported tasks: ['generate']",
        "(EngineCore pid=90) INFO 11-28 23:10:04 [core.py:118] CacheConfig(block_size=16, kv_sharing_fast_prefill=False)",
        "(EngineCore pid=90)     if self.cache_config.kv_sharing_fast_prefill:",
        "(APIServer pid=1) WARNING `rope_parameters`'s factor field must be a float or int >= 1, got None",
        "(EngineCore pid=90) WARNING CUDAGraphMode.FULL_AND_PIECEWISE is not supported with FlashInferBackend backend"
        " (support: AttentionCGSupport.NEVER); setting cudagraph_mode=PIECEWISE because attention is compiled piecewise",
        "(APIServer pid=1) WARNING Missing required keys in `rope_parameters`: 'factor'",
        "(EngineCore pid=90) NotImplementedError: MRV2 PCP does not support LoRA yet.",
    ],
)
def test_a_request_s_error_and_names_in_logs_are_no_cause(said: str) -> None:
    found = Vllm().diagnose(f"{said}\n(EngineCore pid=90) RuntimeError: the queue is broken\n")
    assert found is None


def test_no_cure_names_an_argument_that_the_operator_refuses() -> None:
    refused = {*MANAGED_FLAGS, *REMOVED_FLAGS}
    named = {option: error.cause for error in ERRORS for option in re.findall(r"`(--[a-z-]+)", error.cause)}
    assert {option: cause for option, cause in named.items() if option in refused} == {}


def test_each_error_has_another_wording() -> None:
    wordings = [error.wording.pattern for error in known_errors("inference_operator.engines.vllm", "start-errors")]
    assert len(set(wordings)) == len(wordings) > 35
