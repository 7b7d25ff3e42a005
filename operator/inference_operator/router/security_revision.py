"""The security revision of a router: how many of the known attacks its pod template and configuration close.

Routers that serve keep their template and configuration at an upgrade. The revision tells those that should not.
"""

import re

from inference_operator.manifest import Manifest
from inference_operator.text_tables import blocks
from inference_operator.views.raw import annotations, mapping

(CLOSED_ATTACKS,) = blocks(__package__, "closed-attacks")

SECURITY_ANNOTATION = "inference-operator.dev/security-revision"
"""The revision in the pod template. Without it the revision is 0."""
_REVISION = re.compile("[0-9]{1,4}")


def security_annotation() -> dict[str, str]:
    return {SECURITY_ANNOTATION: str(len(CLOSED_ATTACKS))} if CLOSED_ATTACKS else {}


def open_attacks(deployment: Manifest | None) -> tuple[str, ...]:
    """The attacks that this release closes, and the template of a live Deployment does not; empty without one."""
    if deployment is None:
        return ()
    template = mapping(deployment, "spec", "template")
    text = str(annotations(template).get(SECURITY_ANNOTATION))
    return tuple(CLOSED_ATTACKS[int(text) if _REVISION.fullmatch(text) else 0 :])
