"""`spec.podTemplate` and `spec.router.podTemplate`: an allow-list of what can be added to engine and router pods.

No volume gives access to a Secret or to the node. No container gets privileges.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, Field, StringConstraints
from pydantic.config import JsonDict

from inference_operator.api.container import BY_NAME, Argument, Environment, Image, ResourcesSpec
from inference_operator.api.validation import (
    LABEL_KEYS,
    CelRules,
    ClaimName,
    ConfigMapName,
    Labels,
    Quantity,
    Rule,
    SpecModel,
)

MAX_SIDECARS = 4
MAX_ANNOTATION_LENGTH = 4096

Name = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""Name of a volume or container, a DNS label."""

_INSIDE = Rule(
    "!self.startsWith('/') && !self.split('/').exists(part, part == '..')",
    lambda path: not path.startswith("/") and ".." not in path.split("/"),
    "must be a path inside the volume, without `..`, for example `hub/models`",
)
Item = TypeVar("Item", bound=SpecModel)


def _unique(field: str) -> Callable[[tuple[Item, ...]], tuple[Item, ...]]:
    def check(items: tuple[Item, ...]) -> tuple[Item, ...]:
        if len({getattr(item, field) for item in items}) != len(items):
            raise ValueError(f"must not have two items with the same {field.replace('_', ' ')}")
        return items

    return check


class ClaimVolume(SpecModel):
    """A PersistentVolumeClaim in the same namespace."""

    claim_name: ClaimName = Field(description="Name of the PersistentVolumeClaim.")
    read_only: bool = Field(False, description="Whether to mount it read-only. Default: false.")  # noqa: FBT003


class ConfigMapVolume(SpecModel):
    """A ConfigMap in the same namespace."""

    name: ConfigMapName = Field(description="Name of the ConfigMap.")


class Medium(StrEnum):
    """Storage medium of an `emptyDir`."""

    MEMORY = "Memory"


class EmptyDirVolume(SpecModel):
    """An `emptyDir` volume: an empty directory with the lifetime of the pod."""

    medium: Medium | None = Field(None, description="`Memory` for a tmpfs. Default: the node's disk.")
    size_limit: Quantity | None = Field(None, description="Maximum size. Default: the node's limit.")


class ImageVolume(SpecModel):
    """An OCI image, mounted read-only."""

    reference: Image = Field(description="Image reference.")


_SOURCES = ("persistentVolumeClaim", "configMap", "emptyDir", "image")


def _one_source(volume: "Volume") -> bool:
    given = (volume.persistent_volume_claim, volume.config_map, volume.empty_dir, volume.image)
    return sum(source is not None for source in given) == 1


class Volume(SpecModel):
    """A volume of the pods."""

    name: Name = Field(description="Name of the volume.")
    persistent_volume_claim: ClaimVolume | None = Field(None, description="A PersistentVolumeClaim.")
    config_map: ConfigMapVolume | None = Field(None, description="A ConfigMap.")
    empty_dir: EmptyDirVolume | None = Field(None, description="An empty directory with the lifetime of the pod.")
    image: ImageVolume | None = Field(None, description="An OCI image.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"[{', '.join(f'has(self.{source})' for source in _SOURCES)}].filter(given, given).size() == 1",
            _one_source,
            "must have exactly one of `persistentVolumeClaim`, `configMap`, `emptyDir` and `image`",
        ),
    )


class Mount(SpecModel):
    """A mount of a volume of `podTemplate.volumes`."""

    name: Name = Field(description="Name of the volume.")
    mount_path: Annotated[str, StringConstraints(max_length=512, pattern="^/[^:]*$")] = Field(
        description="Absolute path in the container."
    )
    sub_path: Annotated[str, StringConstraints(max_length=512), CelRules(_INSIDE)] | None = Field(
        None, description="Path inside the volume. Default: the volume's root."
    )
    read_only: bool = Field(False, description="Whether the mount is read-only. Default: false.")  # noqa: FBT003


BY_PATH: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["mountPath"]}
Mounts = Annotated[tuple[Mount, ...], AfterValidator(_unique("mount_path"))]


class Sidecar(SpecModel):
    """An unprivileged sidecar container: it starts before the main containers and stops after them."""

    name: Name = Field(description="Name of the container.")
    image: Image = Field(description="Container image. It must be able to run as any user without privileges.")
    command: tuple[Argument, ...] = Field((), max_length=16, description="Command. Default: the image's entrypoint.")
    args: tuple[Argument, ...] = Field((), max_length=64, description="Arguments. Default: the image's command.")
    env: Environment = Field(
        (), max_length=32, description="Environment variables. Default: none.", json_schema_extra=BY_NAME
    )
    resources: ResourcesSpec = Field(default_factory=ResourcesSpec, description="CPU and memory. Default: none.")
    volume_mounts: Mounts = Field(
        (), max_length=16, description="Volume mounts. Default: none.", json_schema_extra=BY_PATH
    )


class PodTemplateSpec(SpecModel):
    """Additions to the pods of one component: of engines, or of routers."""

    labels: Labels = Field(
        default_factory=dict, description="Additional labels. Default: none. Change: rolling restart."
    )
    annotations: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=MAX_ANNOTATION_LENGTH)]],
        Field(max_length=32),
        CelRules(LABEL_KEYS),
    ] = Field(default_factory=dict, description="Additional annotations. Default: none. Change: rolling restart.")
    volumes: Annotated[tuple[Volume, ...], AfterValidator(_unique("name"))] = Field(
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
    sidecars: Annotated[tuple[Sidecar, ...], AfterValidator(_unique("name"))] = Field(
        (),
        max_length=MAX_SIDECARS,
        description="Sidecar containers. Kubernetes expands `$(NAME)` in them. Default: none. Change: rolling restart.",
        json_schema_extra=BY_NAME,
    )
