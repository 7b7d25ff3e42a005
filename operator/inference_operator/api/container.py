"""Parts of a container in the spec: image, environment and compute resources."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints
from pydantic.config import JsonDict

from inference_operator.api.validation import (
    CelRules,
    ConfigMapName,
    ObjectName,
    Quantity,
    Rule,
    SecretName,
    SpecModel,
    matches,
    unique,
)

IMAGE_RULE = matches(
    r"\S+", "must be an image reference without spaces, for example `docker.io/vllm/vllm-openai:v0.32.0`"
)
Image = Annotated[str, StringConstraints(min_length=1, max_length=512), CelRules(IMAGE_RULE)]
Argument = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
ResourceName = Annotated[str, StringConstraints(min_length=1, max_length=253)]


DataKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern="^[-._a-zA-Z0-9]+$")]
"""A key of a Secret or ConfigMap."""


class KeySelector(SpecModel):
    name: ObjectName
    key: DataKey = Field(description="Key in its `data`.")


class SecretKeySelector(KeySelector):
    name: SecretName = Field(description="Name of the Secret.")


class SecretRef(SpecModel):
    name: SecretName = Field(description="Name of the Secret.")


class ConfigMapKeySelector(KeySelector):
    name: ConfigMapName = Field(description="Name of the ConfigMap.")


FIELD_PATH = (
    r"^(metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^']{1,316}'\]"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$"
)
"""Fields of a pod that a variable may have (Kubernetes 1.36, pkg/apis/core/validation,
`validEnvDownwardAPIFieldPathExpressions`)."""


class FieldSelector(SpecModel):
    api_version: Literal["v1"] = Field("v1", description="Always `v1`. Default: `v1`.")
    field_path: Annotated[str, StringConstraints(max_length=340, pattern=FIELD_PATH)] = Field(
        description="Field of the pod, for example `metadata.namespace` or `status.hostIP`."
    )


class EnvironmentSource(SpecModel):
    secret_key_ref: SecretKeySelector | None = Field(None, description="Selects a key of a Secret.")
    config_map_key_ref: ConfigMapKeySelector | None = Field(None, description="Selects a key of a ConfigMap.")
    field_ref: FieldSelector | None = Field(None, description="Selects a field of the pod.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)].filter(given, given).size() == 1",
            lambda self: len(self.model_fields_set) == 1,
            "must have exactly one of `secretKeyRef`, `configMapKeyRef` and `fieldRef`",
        ),
    )


class EnvironmentVariable(SpecModel):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        min_length=1, max_length=256, description="Name of the variable."
    )
    value: str | None = Field(None, max_length=8192, description="Value of the variable. Default: empty.")
    value_from: EnvironmentSource | None = Field(None, description="Source of the value.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.value) != has(self.valueFrom)",
            lambda self: (self.value is None) != (self.value_from is None),
            "must have exactly one of `value` and `valueFrom`",
        ),
    )


Environment = Annotated[
    tuple[EnvironmentVariable, ...], unique("must not contain the same variable name twice", by="name")
]


def list_map(key: str) -> JsonDict:
    """Marks a list that server-side apply merges by this field of its items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


BY_NAME = list_map("name")


class ResourcesSpec(SpecModel):
    requests: dict[ResourceName, Quantity] = Field(
        default_factory=dict,
        max_length=16,
        description="Resources that the scheduler reserves. Default: as `resources` says, else none.",
    )
    limits: dict[ResourceName, Quantity] = Field(
        default_factory=dict,
        max_length=16,
        description="Upper limits that the kubelet enforces. Default: as `resources` says, else none.",
    )
