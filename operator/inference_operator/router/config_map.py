"""The router's ConfigMap, which holds haproxy.cfg and the scripts that it loads."""

import re
from collections.abc import Mapping

from inference_operator.manifest import CONFIG_MAP, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import ROUTER, router_name
from inference_operator.views.raw import annotations

SLOTS_ANNOTATION = "inference-operator.dev/slots"
"""Server slots of the configuration. It is read back, so that scaling down does not change the configuration."""

_COUNT = re.compile("[0-9]{1,4}")
"""Four digits are enough for the largest number of replicas; a longer number is a mistake of somebody who edited it."""


def router_config(files: Mapping[str, str], *, slots: int, owner: Owner) -> Manifest:
    """The ConfigMap with the routers' configuration."""
    return child(
        CONFIG_MAP,
        router_name(owner.key.name),
        owner=owner,
        component=ROUTER,
        content={"data": dict(files)},
        annotations={SLOTS_ANNOTATION: str(slots)},
    )


def live_slots(config: Manifest | None) -> int:
    """Server slots of the live configuration; 0 if there is none, or its annotation is not a number."""
    text = annotations(config).get(SLOTS_ANNOTATION, "")
    return int(text) if _COUNT.fullmatch(text) else 0
