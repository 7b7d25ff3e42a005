"""LoRA adapters in a router: the values of adapters.cfg.j2.

Its map has kinds of models by name. It is empty, and the script fills it.
"""

from collections.abc import Mapping

from inference_operator.objects.adapter_list import ADVERTISED
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.waiting import MODELS_PATH

ADAPTERS_FOLDER = "/etc/haproxy-adapters"
"""Where the ConfigMap with the list of adapters is mounted."""


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if not inputs.has_adapters:
        return None
    return {
        "models_path": MODELS_PATH,
        "file": f"{ADAPTERS_FOLDER}/{ADVERTISED}",
        "names": " ".join(inputs.model_names),
    }
