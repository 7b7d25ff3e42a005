"""Architectures of text models that SGLang implements itself.

`python -m e2e.engines.sglang_tables` writes the table from SGLang's own source. It leaves out models that read images
or sound: SGLang opens any `file:` URL that a request names, so that clients could read files of the pod (0.5.23,
`srt/utils/common.py`, `load_image`). An architecture that SGLang does not implement is left out because it would run
the model's own code, without being asked for it (`srt/model_loader/utils.py`, `resolve_transformers_arch`). Drafts,
encoders and diffusion are left out too.
"""

from importlib.resources import files

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.model_access import Support
from inference_operator.engines.sglang.image import VERSION
from inference_operator.models.facts import Kernel, ModelFacts

_NAMES = frozenset(files(__package__).joinpath(f"architectures-{VERSION}.txt").read_text(encoding="utf-8").splitlines())
_LOST = "SGLang has no adapters here, reads text only, and no release of the operator was tested with it on a GPU."


def support(architecture: str) -> Support:
    """Whether SGLang generates text with models of an architecture. The table holds for every image."""
    if architecture and architecture not in _NAMES:
        return Support(f"SGLang {VERSION} serves no models of the architecture `{architecture}` here.")
    return Support(lost=_LOST)


def refusal_of_model(facts: ModelFacts) -> Refusal | None:
    """Why a model is not served with SGLang, or None.

    1. Its config names an architecture of the table, and no other one: SGLang looks at each of them.
    2. It generates text: SGLang would serve a model that embeds or ranks texts as if it did.
    3. It has no encoder of images, video or sound.
    4. Its weights are in a format that the one loader of safetensors reads.
    """
    problem = ""
    if facts.architecture not in _NAMES or facts.other_architectures:
        problem = "SGLang serves only models whose `config.json` names one architecture, of a text model that it knows."
    elif facts.is_pooling:
        problem = "SGLang serves only models that generate text here, and this one embeds or ranks texts."
    elif facts.has_vision or facts.tower:
        problem = "SGLang serves only models that read nothing but text here."
    elif facts.quantization.kernel is Kernel.BITSANDBYTES:
        problem = "SGLang needs another loader for weights of bitsandbytes."
    if not problem:
        return None
    return Refusal(
        Reason.INVALID_MODEL, "spec.model.source", problem, "Use another model, or `spec.engine.kind: VLLM`."
    )
