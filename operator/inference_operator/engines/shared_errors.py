"""Known errors that are no engine's own: of the hub's client, of safetensors, and of the check of GPUs."""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error

HUB_ERRORS: Sequence[KnownError] = (
    # huggingface_hub 1, errors.py and utils/_http.py
    known_error(
        Reason.MODEL_GATED,
        r"(?:gated repo|GatedRepoError|Cannot access gated repo|is restricted and you are not in the authorized list)",
        "the hub gives this model only to accounts that have accepted its licence."
        " Accept it there, and name a Secret with a token in `spec.model.tokenSecretRef`",
    ),
    known_error(
        Reason.MODEL_NOT_FOUND,
        r"(?:RepositoryNotFoundError|is not a local folder and is not a valid model identifier|Repository Not Found)",
        "the hub has no such model, or does not show it to this account."
        " Check `spec.model.source`; for a private model name a Secret with a token in `spec.model.tokenSecretRef`",
    ),
    known_error(
        Reason.MODEL_NOT_FOUND,
        r"(?:401 Unauthorized|401 Client Error)",
        "the hub does not accept the token of this account. Check the Secret of `spec.model.tokenSecretRef`, or behind"
        " `HF_TOKEN` in `spec.engine.env`",
    ),
    # h11 0.16, _headers.py
    known_error(
        Reason.MODEL_NOT_FOUND,
        r"Illegal header value ",
        "the token of the hub has a character that HTTP does not allow, such as a line break. Correct the Secret of"
        " `spec.model.tokenSecretRef`, or behind `HF_TOKEN` in `spec.engine.env`",
    ),
    known_error(
        Reason.MODEL_NOT_FOUND,
        r"(?:RevisionNotFoundError|is not a valid git identifier)",
        "the model has no such revision. Check it on the hub",
    ),
    known_error(
        Reason.HUB_UNREACHABLE,
        r"(?:couldn't connect to '|outgoing traffic has been disabled|OfflineModeIsEnabled|LocalEntryNotFoundError"
        r"|Cannot reach http|Max retries exceeded with url|ConnectError|Failed to resolve|429 Client Error"
        r"|Too Many Requests|50[0234] Server Error)",
        "the hub does not answer. Check the way out of the cluster, or serve the model from a claim or an image",
    ),
)
"""Errors of the hub's client."""

DAMAGED_WEIGHTS = known_error(
    # safetensors 0.8
    Reason.INVALID_MODEL,
    r"(?:SafetensorError|Error while deserializing header)",
    "the weights are damaged. Copy the model again",
)

_GPUS = r"[\w .,:()@/+-]{1,200}"
"""GPUs with numbers, names and sizes, as `engines/gpu_check.py` prints them."""

GPU_ERRORS: Sequence[KnownError] = (
    # engines/gpu_check.py
    known_error(
        Reason.WRONG_GPU,
        rf"wrong GPU: the engine was sized for (?P<need>{_GPUS}); this node gives it (?P<has>{_GPUS})",
        "the engine was sized for {need}, but its node gives it {has}. Correct the node's labels or `gpuNodeLabels` of"
        " the operator, or name this GPU in `spec.hardware.gpu.products`",
    ),
)
"""Errors of the check of GPUs."""
