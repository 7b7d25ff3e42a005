"""Known errors of vLLM 0.32.0 about a model, an argument and a GPU that do not go together; each with its file below `vllm`.

Their groups match figures and names of vLLM's own. What follows in a line may be a value.
"""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import COUNT, KnownError, known_error

_WORD = r"[\w.-]{1,40}"
_TENSOR = "Set `spec.parallelism.tensor` to a smaller size"
_NO_BACKEND = r"No valid attention backend found for (?:(?!No valid)[^\n]){0,4000}?"
_CLASSES = r"(?P<what>[A-Z_]{3,40})"


def _precision(wording: str, cause: str) -> KnownError:
    return known_error(Reason.UNSUPPORTED_PRECISION, wording, cause)


def _argument(wording: str, cause: str) -> KnownError:
    return known_error(Reason.INVALID_ARGUMENT, wording, f"{cause} in `spec.engine.args`")


def _refused(wording: str, cause: str) -> KnownError:
    return known_error(Reason.CONFIGURATION_REFUSED, wording, cause)


_OF_PRECISION: Sequence[KnownError] = (
    # config/model.py
    _precision(
        rf"The model type '(?P<what>{_WORD})' does not support float16",
        "models of the type `{what}` do not run in float16. Remove `spec.engine.dtype`, or use a GPU with bfloat16",
    ),
    # config/vllm.py
    _precision(
        rf"torch\.(?P<dtype>\w{{1,20}}) is not supported for quantization\s+method (?P<what>{_WORD})\. Supported dtypes",
        "the quantization `{what}` is not computed in {dtype}. Remove `spec.engine.dtype`, or use a newer GPU",
    ),
    # model_executor/layers/attention/attention.py
    _precision(
        r"fp8_e5m2 kv-cache is not supported with fp8 checkpoints",
        "a checkpoint in FP8 has no KV cache of `fp8_e5m2`. Set `spec.engine.kvCacheDtype: fp8`, or remove it",
    ),
    # v1/attention/backends/triton_attn.py, mla/triton_mla.py
    _precision(
        r"FP8 KV cache is not supported by the Triton (?:MLA|attention) backend[^\n]{0,120}?"
        r"compute capability (?P<have>\d{1,2}\.\d)\)[^\n]{0,120}?--kv-cache-dtype (?P<other>b?float16)",
        "this model has an FP8 KV cache only on GPUs of compute capability 8.9, and this one has {have}."
        " Set `spec.engine.kvCacheDtype: {other}`, or use a newer GPU",
    ),
    _precision(
        r"bfloat16 KV cache is not supported (?:on|by the Triton MLA) [^\n]{0,120}?"
        r"compute capability (?P<have>\d{1,2}\.\d)\)",
        "a KV cache in bfloat16 needs a GPU of compute capability 8.0, and this one has {have}."
        " Set `spec.engine.kvCacheDtype: float16`",
    ),
    # platforms/cuda.py, with what each backend lacks. Most lack more than one thing, so what only one lacks decides.
    _precision(
        _NO_BACKEND + r"\[kv_cache_dtype not supported\]",
        "no kernel on this GPU has the KV cache type for the attention of this model. Remove `spec.engine.kvCacheDtype`",
    ),
    _precision(
        _NO_BACKEND + r"\[dtype not supported\]",
        "no kernel on this GPU computes the attention of this model in this data type. Remove `spec.engine.dtype`",
    ),
    _argument(
        _NO_BACKEND + r"\[block_size not supported\]",
        "no kernel has blocks of this size for the attention of this model. Remove `--block-size`",
    ),
    _precision(
        _NO_BACKEND + "compute capability not supported",
        "no kernel on this GPU computes the attention of this model. Use a newer GPU, or another model",
    ),
    _precision(
        r"No valid attention backend found for",
        "no kernel on this GPU computes the attention of this model with these types. Remove `spec.engine.dtype` and"
        " `spec.engine.kvCacheDtype`, or use a newer GPU",
    ),
    _argument(
        rf"Selected backend (?:AttentionBackendEnum\.)?{_CLASSES} is not valid for this configuration",
        "the attention backend `{what}` does not compute this model here. Remove `--attention-backend`",
    ),
)

_OF_SIZES: Sequence[KnownError] = (
    # distributed/utils.py
    known_error(
        Reason.HEADS_NOT_DIVISIBLE,
        rf"AssertionError: (?P<what>{COUNT}) is not divisible by (?P<size>{COUNT})",
        "{what} heads, rows or columns of a layer cannot be divided among {size} GPUs. "
        + _TENSOR
        + ", or add `--mm-encoder-tp-mode=data` if the layer is of the encoder of images",
    ),
    # model_executor/layers/quantization/utils
    known_error(
        Reason.WEIGHTS_NOT_DIVISIBLE,
        rf"Weight (?:in|out)put_size_per_partition\s?= ?(?P<part>{COUNT})[^\n]{{0,200}}? is not divisible by (?:group_size|min_thread_[nk])"
        rf"\s?= ?(?P<group>{COUNT})",
        "{part} inputs of a weight matrix are left for each GPU, which is no multiple of the {group} that share a scale. "
        + _TENSOR,
    ),
    # config/model.py
    _argument(
        rf"Decode context parallelism for GQA/MQA requires [^\n]{{0,60}}?\((?P<size>{COUNT})\)[^\n]{{0,60}}?\((?P<heads>{COUNT})\)",
        "decode context parallelism needs more GPUs than the {heads} KV heads of the model, and has {size}."
        " Remove `--decode-context-parallel-size`",
    ),
    _argument(
        rf"`--decode-context-parallel-size` \((?P<size>{COUNT})\) exceeds the maximum supported value \((?P<most>{COUNT})\)",
        "decode context parallelism of {size} is more than the {most} that this model allows."
        " Set `--decode-context-parallel-size={most}`",
    ),
    _argument(
        rf"query heads per KV head \((?P<heads>{COUNT})\) must be divisible by `--decode-context-parallel-size` \((?P<size>{COUNT})\)",
        "{heads} attention heads for each KV head cannot be divided among {size}. Correct"
        " `--decode-context-parallel-size`",
    ),
    _refused(
        r"Pipeline parallelism is not supported for this model",
        "vLLM does not divide the layers of this model. Remove `spec.parallelism.pipeline` and `spec.parallelism.nodes`",
    ),
    # model_executor/layers/fused_moe/layer.py
    _argument(
        rf"even distribution of experts across ranks\. Got (?P<count>{COUNT}) experts and (?P<size>{COUNT}) EP ranks",
        "{count} experts with their copies cannot be divided among {size} ranks. Correct `--eplb-config`",
    ),
    # config/parallel.py
    _argument(
        r"enable_expert_parallel must be True to use EPLB", "`--enable-eplb` needs `--enable-expert-parallel`. Add it"
    ),
    # config/model.py
    _argument(
        r"Number of experts in the model must be greater than 0 when expert parallelism is enabled",
        "the model has no experts. Remove `--enable-expert-parallel`",
    ),
    # v1/core/encoder_cache_manager.py
    known_error(
        Reason.INVALID_ARGUMENT,
        rf"max_tokens_per_mm_item \((?P<item>{COUNT})\) is larger\s+than max_num_batched_tokens \((?P<batch>{COUNT})\)",
        "an image, video or sound of {item} tokens does not fit into an iteration of {batch}."
        " Set `spec.engine.maxNumBatchedTokens: {item}` or more",
    ),
    # config/scheduler.py
    known_error(
        Reason.INVALID_ARGUMENT,
        rf"max_num_batched_tokens \((?P<batch>{COUNT})\) (?:is smaller than max_model_len|must be greater than or equal to max_num_seqs)"
        rf" \((?P<least>{COUNT})\)",
        "an iteration of {batch} tokens is smaller than {least}."
        " Set `spec.engine.maxNumBatchedTokens: {least}` or more",
    ),
    # v1/core/kv_cache_utils.py
    _refused(
        r"Failed to promote local KV cache specs to one unified type|unify_hybrid_kv_cache_specs|failed to convert the KV\s?cache",
        "the layers of this model have no KV cache in common. Remove `--disable-hybrid-kv-cache-manager` and connectors"
        " that need it from `spec.engine.args`",
    ),
    known_error(
        Reason.KV_CACHE_TOO_SMALL,
        r"Cannot auto-fit max_model_len: not enough GPU memory",
        "no memory is left for the KV cache of one token. Give the engine more memory, or use more GPUs",
    ),
    # config/compilation.py
    _refused(
        r"CUDAGraphMode\.(?P<what>[A-Z_]{1,40}) is not supported with (?P<backend>\w{1,60}) backend"
        r"[^\n]{0,80}?; please try",  # warnings say which mode it sets instead
        "CUDA graphs of the mode {what} are not possible with {backend}. Remove `--compilation-config` and"
        " `--attention-backend` from `spec.engine.args`",
    ),
)

_OF_DRAFTS: Sequence[KnownError] = (
    # config/speculative.py
    _argument(
        rf"should have the same vocabulary size\. Target model vocab_size=(?P<own>{COUNT})\.(?:\s+Draft model vocab_size=(?P<draft>{COUNT}))?",
        "the draft model has another vocabulary than the {own} tokens of the model. Name another draft model, or set"
        " `use_heterogeneous_vocab`",
    ),
    _argument(
        rf"num_speculative_tokens:(?P<tokens>{COUNT}) must be divisible by n_predict=(?P<layers>{COUNT})",
        "{tokens} speculative tokens are no multiple of the {layers} layers that predict them. Correct `--spec-tokens`",
    ),
    _argument(
        r"(?:A speculative model was provided, but\s+`num_speculative_tokens` was not provided"
        r"|num_speculative_tokens must be provided with speculative model)",
        "a draft model is named without a number of tokens. Add `--spec-tokens`",
    ),
    _argument(
        r"num_speculative_tokens was provided but without speculative model",
        "speculative tokens are named without a draft model or a method. Add `--spec-model` or `--spec-method`",
    ),
    _argument(
        r"Unsupported speculative method: ",
        "the model has no speculative decoding by this method. Correct `--spec-method`",
    ),
    _argument(
        r"speculative_draft_tensor_parallel_size=\d{1,9} cannot be other value than 1 or target",
        "a draft model is divided as the model is, or not at all. Remove `draft_tensor_parallel_size`",
    ),
    _argument(
        r"Expected num_speculative_tokens to be greater than zero",
        "the number of speculative tokens is not above 0. Correct `--spec-tokens`",
    ),
    _argument(
        r"Either prompt_lookup_max or prompt_lookup_min must be provided when using the ngram",
        "the method `ngram` needs `prompt_lookup_max`. Add it to `--speculative-config`",
    ),
    # v1/worker/gpu_model_runner.py
    _refused(
        r"Model does not support EAGLE3 interface",
        "vLLM has no EAGLE-3 for this model. Remove the draft model from `spec.engine.args`",
    ),
)

_OF_RUNNERS: Sequence[KnownError] = (
    # config/model.py
    _argument(
        r"(?:Embedding models do not support `--runner (?:generate|draft)`|This model does not support `--runner generate`)",
        "the model does not generate text. Remove `--runner`",
    ),
    _argument(
        r"This model does not support `--runner pooling`",
        "the model has no scores or embeddings as it is. Add `--convert`, or remove `--runner`",
    ),
    _argument(
        "RuntimeError: Unsupported task: ",  # a request's own error of the same words has another type
        "the model has no such task. Correct `--pooler-config`",
    ),
    _argument(r"does not support any pooling tasks", "the model gives no embeddings or scores. Remove `--runner`"),
    _argument(
        r"This model does not support LoRA|(?<!PCP) does not support LoRA yet",
        "vLLM has no LoRA adapters for this model. Remove `spec.model.adapters`, or `--enable-lora`",
    ),
    _argument(
        r"Video pruning method '\w{1,40}' is not supported by",
        "the model has no pruning of video. Remove `--video-pruning-rate`",
    ),
    _argument(
        r"Default modality-specific LoRA\(s\) were provided for a non multimodal model",
        "the model reads only text. Remove `--default-mm-loras`",
    ),
    # model_executor/layers/mamba
    _argument(
        r"Stochastic rounding for Mamba cache[^\n]{0,60} (?:is only supported|requires compute capability)",
        "this GPU has no stochastic rounding of states. Remove `--enable-mamba-cache-stochastic-rounding`",
    ),
    _argument(
        r"KDA recurrent state supports only auto, float32, and bfloat16",
        "the states of this model are in float32 or bfloat16. Correct `--mamba-ssm-cache-dtype`",
    ),
    _argument(
        rf"Invalid prefix_match_unit=(?P<unit>{COUNT})",
        "prefixes of {unit} tokens do not fit the KV cache. Remove `--prefix-match-unit`",
    ),
    # config/vllm.py
    _argument(
        "Fast prefill optimization for KV sharing is not compatible with EAGLE",
        "EAGLE needs the logits of all tokens. Remove `--kv-sharing-fast-prefill`",
    ),
    # transformers, modeling_rope_utils.py
    _refused(
        "KeyError: .{0,2}Missing required keys in `rope_(?:scaling|parameters)`",  # of wrong ones it only warns
        "the model's rotary positions are not scaled as they are described. Correct `spec.engine.ropeScaling`",
    ),
)

START_ERRORS: Sequence[KnownError] = (*_OF_PRECISION, *_OF_SIZES, *_OF_DRAFTS, *_OF_RUNNERS)
