"""`spec.cache`: a claim that keeps the model's files and what engines compiled."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from inference_operator.api.validation import ClaimName, ObjectName, Quantity, Rule, SpecModel


class AccessMode(StrEnum):
    """Who can mount the claim at a time."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    """Pods on one node."""
    READ_WRITE_MANY = "ReadWriteMany"
    """Pods on all nodes."""


class CacheSpec(SpecModel):
    """A claim for the model's files and compiled kernels."""

    pvc: ClaimName | None = Field(
        None,
        description="PersistentVolumeClaim to download the model to. Default: none. Change: rolling restart.",
    )
    size: Quantity | None = Field(
        None,
        description="Size of a claim NAME-cache to create instead. Default: none. Change: in place; it can only grow.",
    )
    storage_class: ObjectName | None = Field(
        None, description="StorageClass of that claim. Default: the cluster's. Change: immutable."
    )
    access_mode: AccessMode = Field(
        AccessMode.READ_WRITE_ONCE,
        description="Access mode of that claim. Default: `ReadWriteOnce`. Change: immutable.",
    )
    retain: bool = Field(
        False,  # noqa: FBT003
        description="Whether that claim stays when the resource is deleted. Default: false. Change: in place.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.pvc) || !has(self.size)",
            lambda cache: cache.pvc is None or cache.size is None,
            "`pvc` and `size` exclude each other",
        ),
        Rule(
            "has(self.size) || !(has(self.storageClass) || has(self.accessMode) || has(self.retain))",
            lambda cache: (
                cache.size is not None or not cache.model_fields_set & {"storage_class", "access_mode", "retain"}
            ),
            "`storageClass`, `accessMode` and `retain` need `size`",
        ),
    )

    @property
    def wanted(self) -> bool:
        """Whether the model is kept on a claim."""
        return self.pvc is not None or self.size is not None
