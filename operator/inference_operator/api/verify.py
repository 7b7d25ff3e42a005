"""`spec.model.verify`: the key with which the image of an `oci://` model must be signed."""

import re

from pydantic import Field

from inference_operator.api.container import ConfigMapKeySelector, DataKey
from inference_operator.api.validation import SpecModel

PINNED_IMAGE = re.compile("oci://.*@sha256:[0-9a-f]+")
"""A source whose files cannot change: an image by its digest."""


class PublicKeyRef(ConfigMapKeySelector):
    """The ConfigMap with a public key of cosign."""

    key: DataKey = Field("cosign.pub", description="Key in its `data`. Default: `cosign.pub`.")


class VerifySpec(SpecModel):
    """A public key of cosign."""

    config_map_ref: PublicKeyRef = Field(
        description="ConfigMap in the same namespace that has the public key. Required."
    )
