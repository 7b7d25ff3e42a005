"""Offline validation of objects against the schemas of a Kubernetes version."""

from functools import cache

from kubernetes_validate import latest_version, utils

from inference_operator.manifest import OPTIONAL_KINDS, Manifest, kind_of

# The package reads and parses two files for every object, which takes 10 ms; what it reads never changes.
utils.schema_contents = cache(utils.schema_contents)
utils.all_versions = cache(utils.all_versions)


def validate(manifest: Manifest, version: str = latest_version()) -> None:
    """Raise if an object does not fit the schema of its kind, or has fields that the schema does not know."""
    if kind_of(manifest) in OPTIONAL_KINDS:
        return  # no kind of Kubernetes; tests/apiserver applies it to its real CRD (test_exposure, test_autoscalers)
    utils.validate(manifest, version, strict=True)
