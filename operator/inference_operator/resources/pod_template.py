"""The pod template of a Deployment, which carries its own hash into the pods."""

from collections.abc import Mapping

from inference_operator.manifest import Manifest
from inference_operator.observed.pod import TEMPLATE_ANNOTATION
from inference_operator.resources.child import fingerprint


def pod_template(
    spec: Manifest,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    added_labels: Mapping[str, str] | None = None,
) -> Manifest:
    """A template with its hash among the annotations.

    Args:
        spec: the pod.
        labels: by which pods are found; they never change.
        annotations: annotations beside the hash.
        added_labels: further labels, of which the hash knows as of annotations.
    """
    stated, added = dict(annotations or {}), dict(added_labels or {})
    stamp = fingerprint([spec, {**stated, **added}])
    return {
        "metadata": {"labels": {**added, **labels}, "annotations": {**stated, TEMPLATE_ANNOTATION: stamp}},
        "spec": spec,
    }
