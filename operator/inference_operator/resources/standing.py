"""The pod template that engines serve with: it stands, whatever another release of the operator would make of it.

Another one restarts every engine, minutes of loading each. So it is kept, packed, in an annotation of the engines'
Deployment, with a fingerprint of what it answers: all that is asked of engines, and what was decided about them.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from inference_operator.observed.pod import PodView, template_of
from inference_operator.observed.raw import annotations
from inference_operator.resources.child import fingerprint
from inference_operator.resources.pinned import Pinned
from inference_operator.sizing.unusual import unusual

STANDING_ANNOTATION = "inference-operator.dev/engine-template"
_NOT_OF_ENGINES = {"replicas", "rollout", "router", "paused"}
"""Fields of a specification that no pod of an engine is made from."""
_EXPLAINING = {"per_gpu", "assumptions", "uncounted", "unchecked", "context_reduced"}
"""Fields of a plan that tell how it came about, and that no pod is made from."""
_SMALLEST = 9
"""Of zlib's levels: written rarely, and kept with every Deployment."""
_MOST_BYTES = 2**20
"""Of a template: an object of the API server has at most 1.5 MiB (etcd documentation, "System limits")."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A template, and what it was made for."""

    answers: str
    template: Manifest
    read: str = field(default="", compare=False)
    """The annotation that it was read from; empty if it is made now."""

    @property
    def text(self) -> str:
        """As stored in the annotation: what was read as it stands, which costs nothing and is no change."""
        if self.read:
            return self.read
        plain = json.dumps(self.template, sort_keys=True, separators=(",", ":")).encode()
        packed = base64.b64encode(zlib.compress(plain, _SMALLEST)).decode()
        return f"{self.answers}.{fingerprint(self.template)}.{packed}"


def standing(text: str | None) -> Standing | None:
    """Read the annotation; None where there is none or a hand has broken it.

    Examples:
        >>> made = Standing("0123", {"spec": {"containers": []}})
        >>> standing(made.text) == made, standing(made.text[:-12]), standing(None)
        (True, None, None)
    """
    answers, _, rest = (text or "").partition(".")
    mark, _, packed = rest.partition(".")
    try:
        unpacking = zlib.decompressobj()
        template = json.loads(unpacking.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES))
    except (ValueError, RecursionError, zlib.error):
        return None
    if not isinstance(template, dict) or fingerprint(template) != mark:
        return None
    return Standing(answers, template, read=text or "")


def made_for(spec: Spec, pinned: Pinned) -> str:
    """Fingerprint of all that a template answers.

    What is as usual is left out, so that a field of a later release, or another default, changes nothing for those
    who do not use it.
    """
    asked = spec.model_dump(mode="json", exclude=_NOT_OF_ENGINES, exclude_defaults=True)
    decided = {name: value for name, value in unusual(pinned.plan).items() if name not in _EXPLAINING}
    return fingerprint([asked, pinned.asked, pinned.image, decided])


def standing_template(made: Standing, live: Manifest | None, pods: Sequence[PodView]) -> Standing:
    """The template that engines are to have: the one that they serve with, if it answers the same, or the new one.

    Args:
        made: the template as this operator makes it.
        live: the engines' Deployment.
        pods: the engines' pods.
    """
    kept = standing(annotations(live).get(STANDING_ANNOTATION))
    if kept is None or kept.answers != made.answers:
        return made
    stamp = template_of(kept.template.get("metadata") or {})
    return kept if any(pod.template == stamp and _has_answered(pod) for pod in pods) else made


def _has_answered(pod: PodView) -> bool:
    """Whether a pod serves, or does so again once it is less busy."""
    return not pod.terminating and (pod.ready or (pod.start is not None and pod.start.answered))


def older_template(template: Manifest, made: Manifest) -> str:
    """That engines keep a template which this operator would make otherwise, in a sentence; empty if they do not."""
    if template == made:
        return ""
    return (
        "Engines keep the pods that they have, which this release or its settings would make otherwise: an edit of"
        " `spec.podTemplate.annotations` renews them one by one."
    )
