"""LoRA adapters in a router: the values of adapters.cfg.j2."""

from collections.abc import Mapping

from inference_operator.objects.adapter_list import ADVERTISED
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import CONFIG_FOLDER
from inference_operator.router.waiting import MODELS_PATH

ADAPTERS_SCRIPT = "adapters.lua"

ADAPTERS_FOLDER = "/etc/haproxy-adapters"
"""Where the ConfigMap with the list of adapters is mounted."""

ADAPTERS_MAP = "adapters.map"
"""Kinds of models by name: an empty map, which ADAPTERS_SCRIPT fills."""


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if not inputs.has_adapters:
        return None
    return {
        "models_path": MODELS_PATH,
        "lua": f"{CONFIG_FOLDER}/{ADAPTERS_SCRIPT}",
        "file": f"{ADAPTERS_FOLDER}/{ADVERTISED}",
        "map": f"{CONFIG_FOLDER}/{ADAPTERS_MAP}",
        "names": " ".join(inputs.model_names),
    }
