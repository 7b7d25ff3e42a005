"""`spec.podTemplate` and `spec.router.podTemplate`: an allow-list of what can be added to engine and router pods.

Names and meaning are those of Kubernetes 1.36, core/v1. No volume gives access to the node, and no container gets
privileges. Whoever sets any of it needs the right to create pods.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inference_operator.api.container import BY_NAME, Argument, DataKey, Environment, Image, ResourcesSpec, list_map
from inference_operator.api.validation import (
    LABEL_KEYS,
    CelRules,
    ClaimName,
    ConfigMapName,
    Labels,
    ObjectName,
    Quantity,
    Rule,
    SecretName,
    SpecModel,
    unique,
)

MAX_SIDECARS = 4
MAX_ANNOTATION_LENGTH = 4096
RENEWED_ANNOTATION = "renewed-at-generation"
"""Annotation by which `infd` and Argo CD's actions ask for new pods of this release. Its value is the generation before
the edit, so that it is another one each time."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""Name of a volume or container, a DNS label."""

_INSIDE = Rule(
    "!self.startsWith('/') && !self.split('/').exists(part, part == '..')",
    lambda path: not path.startswith("/") and ".." not in path.split("/"),
    "must be a path inside the volume, without `..`, for example `hub/models`",
)
_UNIQUE_NAMES = unique("must not have two items with the same name", by="name")


class ClaimVolume(SpecModel):
    claim_name: ClaimName = Field(description="Name of the PersistentVolumeClaim.")
    read_only: bool = Field(False, description="Whether to mount it read-only. Default: false.")  # noqa: FBT003


class ConfigMapVolume(SpecModel):
    name: ConfigMapName = Field(description="Name of the ConfigMap.")


class Medium(StrEnum):
    MEMORY = "Memory"


class EmptyDirVolume(SpecModel):
    medium: Medium | None = Field(None, description="`Memory` for a tmpfs. Default: the node's disk.")
    size_limit: Quantity | None = Field(None, description="Maximum size. Default: the node's limit.")


class ImageVolume(SpecModel):
    reference: Image = Field(description="Image reference.")


class KeyToPath(SpecModel):
    key: DataKey = Field(description="Key in its `data`.")
    path: Annotated[str, StringConstraints(min_length=1, max_length=512), CelRules(_INSIDE)] = Field(
        description="Path of the file in the volume."
    )


class SecretVolume(SpecModel):
    secret_name: SecretName = Field(description="Name of the Secret.")
    items: tuple[KeyToPath, ...] = Field((), max_length=16, description="Keys to mount. Default: all.")
    optional: bool = Field(False, description="Whether pods start without it. Default: false.")  # noqa: FBT003


class CsiVolume(SpecModel):
    driver: ObjectName = Field(description="Name of the CSI driver, for example `secrets-store.csi.k8s.io`.")
    read_only: Literal[True] = Field(description="Must be true.")
    volume_attributes: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=1024)]], Field(max_length=16)
    ] = Field(default_factory=dict, description="Parameters of the driver. Default: none.")


_SOURCES = ("persistentVolumeClaim", "configMap", "secret", "emptyDir", "image", "csi")


class Volume(SpecModel):
    name: Name = Field(description="Name of the volume.")
    persistent_volume_claim: ClaimVolume | None = Field(None, description="A PersistentVolumeClaim.")
    config_map: ConfigMapVolume | None = Field(None, description="A ConfigMap.")
    empty_dir: EmptyDirVolume | None = Field(None, description="An empty directory with the lifetime of the pod.")
    image: ImageVolume | None = Field(None, description="An OCI image.")
    secret: SecretVolume | None = Field(None, description="A Secret.")
    csi: CsiVolume | None = Field(None, description="An inline volume of a CSI driver.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"[{', '.join(f'has(self.{source})' for source in _SOURCES)}].filter(given, given).size() == 1",
            lambda volume: len(volume.model_fields_set - {"name"}) == 1,
            "must have exactly one of `persistentVolumeClaim`, `configMap`, `secret`, `emptyDir`, `image` and `csi`",
        ),
    )


class Mount(SpecModel):
    name: Name = Field(description="Name of the volume.")
    mount_path: Annotated[str, StringConstraints(max_length=512, pattern="^/[^:]*$")] = Field(
        description="Absolute path in the container."
    )
    sub_path: Annotated[str, StringConstraints(max_length=512), CelRules(_INSIDE)] | None = Field(
        None, description="Path inside the volume. Default: the volume's root."
    )
    read_only: bool = Field(False, description="Whether the mount is read-only. Default: false.")  # noqa: FBT003


BY_PATH = list_map("mountPath")
Mounts = Annotated[tuple[Mount, ...], unique("must not have two items with the same mount path", by="mount_path")]


class OptionalSecretRef(SpecModel):
    name: SecretName = Field(description="Name of the Secret.")
    optional: bool = Field(False, description="Whether pods start without it. Default: false.")  # noqa: FBT003


class OptionalConfigMapRef(SpecModel):
    name: ConfigMapName = Field(description="Name of the ConfigMap.")
    optional: bool = Field(False, description="Whether pods start without it. Default: false.")  # noqa: FBT003


class EnvironmentFrom(SpecModel):
    prefix: Annotated[str, StringConstraints(max_length=63, pattern="^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        None, description="Put before each name. Default: none."
    )
    secret_ref: OptionalSecretRef | None = Field(None, description="A Secret.")
    config_map_ref: OptionalConfigMapRef | None = Field(None, description="A ConfigMap.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.secretRef) != has(self.configMapRef)",
            lambda self: (self.secret_ref is None) != (self.config_map_ref is None),
            "must have exactly one of `secretRef` and `configMapRef`",
        ),
    )


MAX_ENV_FROM = 4
EnvFrom = Annotated[tuple[EnvironmentFrom, ...], Field(max_length=MAX_ENV_FROM)]


class PullSecret(SpecModel):
    name: SecretName = Field(description="Name of the Secret.")


PullSecrets = Annotated[tuple[PullSecret, ...], _UNIQUE_NAMES]


class AddedContainer(SpecModel):
    """An unprivileged container beside the main ones: a sidecar, or one that must end before they start."""

    name: Name = Field(description="Name of the container.")
    image: Image = Field(description="Container image. It must be able to run as any user without privileges.")
    command: tuple[Argument, ...] = Field((), max_length=16, description="Command. Default: the image's entrypoint.")
    args: tuple[Argument, ...] = Field((), max_length=64, description="Arguments. Default: the image's command.")
    env: Environment = Field(
        (), max_length=32, description="Environment variables. Default: none.", json_schema_extra=BY_NAME
    )
    env_from: EnvFrom = Field((), description="More variables, of whole Secrets and ConfigMaps. Default: none.")
    resources: ResourcesSpec = Field(default_factory=ResourcesSpec, description="CPU and memory. Default: none.")
    volume_mounts: Mounts = Field(
        (), max_length=16, description="Volume mounts. Default: none.", json_schema_extra=BY_PATH
    )


class PodTemplateSpec(SpecModel):
    service_account_name: ObjectName | None = Field(
        None,
        description="ServiceAccount of the pods, for example with a cloud's identity. It must be `default`, or stand in"
        " the annotation `inference-operator.dev/service-accounts` of the namespace. Default: `default`."
        " Change: rolling restart.",
    )
    image_pull_secrets: PullSecrets = Field(
        (),
        max_length=8,
        description="Secrets to pull images with. Default: those of the ServiceAccount. Change: rolling restart.",
        json_schema_extra=BY_NAME,
    )
    env_from: EnvFrom = Field(
        (),
        description="More environment variables of the main containers, of whole Secrets and ConfigMaps. Variables that"
        " are set elsewhere stay. Default: none. Change: rolling restart.",
    )

    labels: Labels = Field(
        default_factory=dict, description="Additional labels. Default: none. Change: rolling restart."
    )
    annotations: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=MAX_ANNOTATION_LENGTH)]],
        Field(max_length=32),
        CelRules(LABEL_KEYS),
    ] = Field(default_factory=dict, description="Additional annotations. Default: none. Change: rolling restart.")
    volumes: Annotated[tuple[Volume, ...], _UNIQUE_NAMES] = Field(
        (),
        max_length=16,
        description="Additional volumes. Default: none. Change: rolling restart.",
        json_schema_extra=BY_NAME,
    )
    volume_mounts: Mounts = Field(
        (),
        max_length=16,
        description="Volume mounts of the engine container, or of the HAProxy containers. Default: none."
        " Change: rolling restart.",
        json_schema_extra=BY_PATH,
    )
    sidecars: Annotated[tuple[AddedContainer, ...], _UNIQUE_NAMES] = Field(
        (),
        max_length=MAX_SIDECARS,
        description="Sidecar containers. Kubernetes expands `$(NAME)` in them. Default: none. Change: rolling restart.",
        json_schema_extra=BY_NAME,
    )
    init_containers: Annotated[tuple[AddedContainer, ...], _UNIQUE_NAMES] = Field(
        (),
        max_length=MAX_SIDECARS,
        description="Containers that must end before all others start. Default: none. Change: rolling restart.",
        json_schema_extra=BY_NAME,
    )
