"""The pod template of a Deployment, which carries its own hash into the pods."""

from collections.abc import Mapping

from inference_operator.manifest import Manifest
from inference_operator.observed.pod import TEMPLATE_ANNOTATION
from inference_operator.resources.child import fingerprint


def pod_template(
    spec: Manifest, *, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Manifest:
    """A template with its hash among the annotations."""
    stated = dict(annotations or {})
    stamp = fingerprint([spec, stated])
    return {
        "metadata": {"labels": dict(labels), "annotations": {**stated, TEMPLATE_ANNOTATION: stamp}},
        "spec": spec,
    }
