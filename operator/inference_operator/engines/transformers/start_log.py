"""The log of the server's start: its phase, how much of the weights is loaded, and why it ended.

Lines without a source are those of `server_program.py`.
"""

import re
from collections.abc import Mapping, Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error
from inference_operator.engines.shared_errors import DAMAGED_WEIGHTS, GPU_ERRORS, HUB_ERRORS
from inference_operator.engines.start_log import Phase

PHASES: Mapping[Phase, re.Pattern[str]] = {
    Phase.DOWNLOADING: re.compile(r"^Downloading \S", re.MULTILINE),
    Phase.LOADING: re.compile(r"^Loading the weights$", re.MULTILINE),
    Phase.WARMING_UP: re.compile(r"^Warming up$", re.MULTILINE),
}
LOADED = re.compile(r"Loading weights:\s+(\d{1,2})%\|")
"""transformers 5.19.0, core_model_loading.py, with tqdm."""

ERRORS: Sequence[KnownError] = (
    # torch/cuda and transformers, generation/continuous_batching/cache.py
    known_error(
        Reason.GPU_OUT_OF_MEMORY,
        r"(?:torch\.OutOfMemoryError|CUDA out of memory|Memory footprint \d+ is more than available memory)",
        "the GPU's memory is not enough. Set a smaller `spec.engine.maxModelLen` or `.maxNumBatchedTokens`",
    ),
    known_error(
        Reason.UNSUPPORTED_ARCHITECTURE,
        r"this server is for models that read only text, and this one is of the kind `(?P<what>\w{1,30})`",
        "Transformers serves text models only here, and this one is of the kind {what}. Set `spec.engine.kind: VLLM`",
    ),
    # models/auto/configuration_auto.py, cli/serving/model_manager.py
    known_error(
        Reason.UNSUPPORTED_ARCHITECTURE,
        r"you are trying to load has model type `(?P<what>[\w.-]{1,60})` but Transformers does not recognize",
        "this Transformers does not know the model's type `{what}`. Use another model, or a newer image",
    ),
    known_error(
        Reason.UNSUPPORTED_ARCHITECTURE,
        r"(?:module transformers has no attribute '?(?P<what>\w{1,80})|Unknown modality for: (?P<kind>\w{1,80})"
        r"|'(?P<which>\w{1,80})' object has no attribute 'generation_config')",
        "this Transformers does not generate text with the model's architecture {what}{kind}{which}. Use another model,"
        " or `spec.engine.kind: VLLM`",
    ),
    known_error(
        Reason.REMOTE_CODE_NEEDED,
        r"(?:set the option `trust_remote_code=True`|pass the argument `trust_remote_code=True`)",
        "the model brings code of its own, which this engine does not run. Set `spec.engine.kind: VLLM`",
    ),
    *HUB_ERRORS,
    *GPU_ERRORS,
    # modeling_utils.py, tokenization_utils_base.py, safetensors 0.8
    DAMAGED_WEIGHTS,
    known_error(
        Reason.INVALID_MODEL,
        r"no file named model\.safetensors",
        "there are no weights in the model that Transformers reads. Copy safetensors to it",
    ),
    known_error(
        Reason.INVALID_MODEL,
        r"(?:It looks like the config file at|does not appear to have a file named config\.json|Unrecognized model in)",
        "there is no configuration of a model. Check the path in `spec.model.source`",
    ),
    known_error(
        Reason.INVALID_MODEL,
        r"(?:Can't load tokenizer|Couldn't instantiate the backend tokenizer|Unable to load vocabulary)",
        "the model has no tokenizer. Copy its tokenizer's files too",
    ),
)
"""All known errors, the more specific pattern first."""
