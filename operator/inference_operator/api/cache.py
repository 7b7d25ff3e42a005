"""`spec.cache`: a claim that keeps the model's files and what engines compiled."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from inference_operator.api.validation import ClaimName, ObjectName, Quantity, Rule, SpecModel


class AccessMode(StrEnum):
    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class WhenDeleted(StrEnum):
    """What becomes of the claim when the resource is deleted, as in a StatefulSet."""

    DELETE = "Delete"
    RETAIN = "Retain"


class CacheSpec(SpecModel):
    claim_name: ClaimName | None = Field(
        None,
        description="Existing PersistentVolumeClaim to download the model to; several resources may share it."
        " Default: the operator creates the claim NAME-cache. Change: rolling restart.",
    )
    size: Quantity | None = Field(
        None,
        description="Size of the created claim. Default: that of the files to download, and 10 GiB for compiled"
        " kernels. Change: in place; it can only grow.",
    )
    storage_class_name: ObjectName | None = Field(
        None, description="StorageClass of the created claim. Default: the cluster's. Change: immutable."
    )
    access_mode: AccessMode = Field(
        AccessMode.READ_WRITE_ONCE,
        description="Access mode of the created claim. With `ReadWriteOnce` all engines run on one node."
        " Default: `ReadWriteOnce`. Change: immutable.",
    )
    when_deleted: WhenDeleted = Field(
        WhenDeleted.DELETE,
        description="`Delete` or `Retain` the created claim when the resource is deleted. Default: `Delete`."
        " Change: in place.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.claimName)"
            " || !(has(self.size) || has(self.storageClassName) || has(self.accessMode) || has(self.whenDeleted))",
            lambda cache: cache.claim_name is None or cache.model_fields_set == {"claim_name"},
            "`claimName` names an existing claim: remove `size`, `storageClassName`, `accessMode` and `whenDeleted`",
        ),
    )
