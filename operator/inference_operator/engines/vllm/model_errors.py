"""Known errors of vLLM and the hub about models that cannot be downloaded or run, with their files in vLLM 0.32.0."""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error
from inference_operator.engines.shared_errors import DAMAGED_WEIGHTS

_NO_REPOSITORY = r"(?:Repo id must be in the form[^:\n]{0,60}|Invalid repository ID or local directory specified)"
_MODEL_PATH = r"/model(?:s|-cache)(?:/[\w.+-]{1,255}){0,20}"
"""A path that `spec.model.source` becomes. Any other is a value of an argument."""

MODEL_ERRORS: Sequence[KnownError] = (
    # vllm/config/model.py
    known_error(
        Reason.HEADS_NOT_DIVISIBLE,
        r"Total number of attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size \((?P<size>\d+)\)",
        "{heads} attention heads cannot be divided among {size} GPUs."
        " Set `spec.parallelism.tensor` to a size that divides {heads}",
    ),
    # vllm/model_executor/layers/quantization/utils/fp8_utils.py
    known_error(
        Reason.WEIGHTS_NOT_DIVISIBLE,
        r"= (?P<part>\d+) is not divisible by\s+weight quantization block_(?P<side>[nk]) = (?P<block>\d+)",
        "{part} rows or columns of a weight matrix are left for each GPU, which is no multiple of the quantization's blocks"
        " of {block}. Set a smaller `spec.parallelism.tensor`",
    ),
    # vllm/config/model.py
    known_error(
        Reason.CONTEXT_TOO_LONG,
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len"
        r" \(\S*?=(?P<own>\d+)(?:\.0)?\b",
        "`spec.engine.maxModelLen: {asked}` is more than the {own} tokens that the model knows. Set {own} or less",
    ),
    known_error(
        Reason.UNSUPPORTED_PRECISION,
        r"Unknown quantization method: (?P<what>[\w-]{1,40})",
        "vLLM knows no quantization `{what}`. Remove `spec.engine.quantization`: vLLM reads it from the model",
    ),
    known_error(
        Reason.UNSUPPORTED_PRECISION,
        r"[Qq]uantization method specified in the model config \((?P<own>[\w-]{1,40})\) does not match the quantization method"
        r" specified in the `quantization` argument \((?P<what>[\w-]{1,40})\)",
        "the model is quantised as `{own}`, not as `{what}`. Remove `spec.engine.quantization`",
    ),
    known_error(
        Reason.UNSUPPORTED_PRECISION,
        r"The quantization method %s is deprecated[^']*', '(?P<what>[\w-]{1,40})'",
        "vLLM gives up the quantization `{what}` of this model."
        " Use another model, or `--allow-deprecated-quantization` for as long as it lasts",
    ),
    known_error(
        Reason.UNSUPPORTED_PRECISION,
        r"Cannot find the config file for (?P<what>[\w-]{1,40})",
        "the model is not quantised as `{what}`. Remove `spec.engine.quantization`",
    ),
    known_error(
        Reason.UNSUPPORTED_PRECISION,
        r"[Qq]uantization method (?P<what>[\w-]{1,40}) is not supported for the current GPU\. Minimum capability: (?P<need>\d+)\."
        r" Current capability: (?P<have>\d+)",
        "the quantization `{what}` needs a GPU of compute capability {need} and this one has {have}."
        " Use a newer GPU, or a model without it",
    ),
    known_error(
        Reason.UNSUPPORTED_PRECISION,
        r"Bfloat16 is only supported on GPUs with compute capability of at least (?P<need>[\d.]+)\. Your (?P<gpu>[A-Z][\w /().-]{0,60}?)"
        r" GPU has compute capability (?P<have>\d+\.\d+)",
        "bfloat16 needs a GPU of compute capability {need}, and {gpu} has {have}. Set `spec.engine.dtype: float16`",
    ),
    # vllm/model_executor/models/registry.py; transformers, models/auto/configuration_auto.py
    known_error(
        Reason.UNSUPPORTED_ARCHITECTURE,
        r"Model architectures \[(?P<what>'\w{1,80}'(?:, '\w{1,80}'){0,9})\] (?:are not supported for now|failed to be inspected)",
        "this vLLM does not know the model's architecture {what}. Use another model, an image of a newer vLLM, or"
        " `spec.engine.kind: Transformers`",
    ),
    known_error(
        Reason.UNSUPPORTED_ARCHITECTURE,
        r"checkpoint you are trying to load has model type `(?P<what>[\w.-]{1,60})` but Transformers does not recognize",
        "this vLLM does not know the model's type `{what}`. Use another model, or an image of a newer vLLM",
    ),
    known_error(
        Reason.REMOTE_CODE_NEEDED,
        r"(?:consider setting `trust_remote_code=True`|set the option `trust_remote_code=True`"
        r"|pass the argument `trust_remote_code=True`|execute the configuration file in that repo)",
        "the model brings code of its own, which does not run unless it is trusted."
        " Use a model that vLLM knows, or have `--trust-remote-code` allowed",
    ),
    known_error(
        Reason.MODEL_NOT_FOUND,
        rf"{_NO_REPOSITORY}: ?'(?P<what>{_MODEL_PATH})'",
        "there is no model in `{what}`. Check the path in `spec.model.source`",
    ),
    known_error(
        Reason.MODEL_NOT_FOUND,
        _NO_REPOSITORY,
        "vLLM finds no model or tokenizer of a name that it was given. Check `spec.model.source` and `spec.engine.args`",
    ),
    # openai_harmony before its vocabulary was part of the package (openai/harmony#46, vllm-project/vllm#22525)
    known_error(
        Reason.HUB_UNREACHABLE,
        r"HarmonyError: error downloading or loading vocab file",
        "the vocabulary of gpt-oss cannot be downloaded. Mount a folder with `o200k_base.tiktoken` through"
        " `spec.podTemplate.volumes`, and set `TIKTOKEN_ENCODINGS_BASE` to it in `spec.engine.env`",
    ),
    # vllm/model_executor/model_loader, vllm/transformers_utils, safetensors 0.6
    known_error(
        Reason.INVALID_MODEL,
        r"(?:It looks like the config file at|is not a valid JSON file)",
        "the model's configuration is no JSON. Copy the model again",
    ),
    known_error(
        Reason.INVALID_MODEL,
        r"Cannot find any model weights with `",
        "there are no weights in the model that vLLM reads (GGUF needs its plugin). Copy safetensors to it",
    ),
    DAMAGED_WEIGHTS,
    known_error(
        Reason.INVALID_MODEL,
        r"(?:No supported config format found|does not appear to have a file named config\.json"
        r"|Could not detect config format)",
        "there is no configuration of a model. Check the path in `spec.model.source`",
    ),
    known_error(
        Reason.INVALID_MODEL,
        r"(?:Can't load tokenizer|Couldn't instantiate the backend tokenizer|does not appear to have a file named tokenizer"
        r"|Unable to load vocabulary)",
        "the model has no tokenizer. Copy its tokenizer's files too",
    ),
    known_error(
        Reason.INVALID_MODEL,
        r"(?:size mismatch for|Attempted to load weight \(|shape mismatch|param_data\.shape == loaded_weight\.shape)",
        "weights and configuration are of different models. Copy the model again",
    ),
)
