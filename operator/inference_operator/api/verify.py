"""`spec.model.verify`: the key with which the image of an `oci://` model must be signed."""

import re

from pydantic import Field

from inference_operator.api.validation import ConfigMapName, SpecModel

PINNED_IMAGE = re.compile("oci://.*@sha256:[0-9a-f]+")
"""A source whose files cannot change: an image by its digest."""


class VerifySpec(SpecModel):
    """A public key of cosign."""

    config_map: ConfigMapName = Field(description="ConfigMap in the same namespace that has the public key.")
    key: str = Field(
        "cosign.pub",
        min_length=1,
        max_length=253,
        pattern="^[-._a-zA-Z0-9]+$",
        description="Key in its `data`. Default: `cosign.pub`.",
    )
