"""The ConfigMap with the routers' configuration."""

import re

from inference_operator.manifest import CONFIG_MAP, Manifest, Owner
from inference_operator.observed.raw import annotations
from inference_operator.resources.child import child
from inference_operator.resources.names import ROUTER, router_name

CONFIG_FILE = "haproxy.cfg"
SLOTS_ANNOTATION = "inference-operator.dev/slots"
"""Server slots of the configuration, read back so that scaling down does not change it."""

_COUNT = re.compile("[0-9]{1,4}")
"""Four digits are more than the most replicas need; a larger number is a slip of a hand."""


def router_config(text: str, *, slots: int, owner: Owner) -> Manifest:
    """The ConfigMap with the routers' configuration."""
    return child(
        CONFIG_MAP,
        router_name(owner.key.name),
        owner=owner,
        component=ROUTER,
        content={"data": {CONFIG_FILE: text}},
        annotations={SLOTS_ANNOTATION: str(slots)},
    )


def live_slots(config: Manifest | None) -> int:
    """Server slots of the configuration that is live; 0 where there is none or a hand has broken it."""
    text = annotations(config).get(SLOTS_ANNOTATION, "")
    return int(text) if _COUNT.fullmatch(text) else 0
