"""The key that engines ask of their routers: the values of engine_key.cfg.j2."""

from collections.abc import Mapping

from inference_operator.engines.engine_key_program import USER_HEADER
from inference_operator.engines.programs import KEY_ENTRY
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import CONFIG_FOLDER

ENGINE_KEY_FOLDER = "/etc/haproxy-engine-key"
"""Where the Secret with the key is mounted in routers' pods."""

KEY_MAP_FILE = f"{CONFIG_FOLDER}/engine_key.map"
KEY_ENTRY_OF_MAP = "engine"


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if not inputs.engine_key:
        return None
    return {
        "file": f"{ENGINE_KEY_FOLDER}/{KEY_ENTRY}",
        "entry": KEY_ENTRY_OF_MAP,
        "user_header": USER_HEADER.decode(),
    }
