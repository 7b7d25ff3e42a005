"""`spec.podTemplate`: what may be added to the engines' pods; everything that is not named here is not allowed.

No volume reaches a Secret or the node, no container gets a privilege.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, Field, StringConstraints
from pydantic.config import JsonDict

from inference_operator.api.container import BY_NAME, Argument, Environment, Image, ResourcesSpec
from inference_operator.api.labels import KEYS, Labels, ObjectName
from inference_operator.api.part import Must, Part, Quantity, Rule

MAX_SIDECARS = 4
MAX_ANNOTATION_LENGTH = 4096

Name = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""Name of a volume or container, a DNS label."""

_INSIDE = Rule(
    "!self.startsWith('/') && !self.split('/').exists(part, part == '..')",
    lambda path: not path.startswith("/") and ".." not in path.split("/"),
    "must be a path inside the volume, without `..`, for example `hub/models`",
)
Item = TypeVar("Item", bound=Part)


def _unique(field: str) -> Callable[[tuple[Item, ...]], tuple[Item, ...]]:
    def check(items: tuple[Item, ...]) -> tuple[Item, ...]:
        if len({getattr(item, field) for item in items}) != len(items):
            raise ValueError(f"must not have two items with the same {field.replace('_', ' ')}")
        return items

    return check


class ClaimVolume(Part):
    """A PersistentVolumeClaim of this namespace."""

    claim_name: ObjectName = Field(description="Name of the claim.")
    read_only: bool = Field(False, description="Whether nothing may write to it. Default: false.")  # noqa: FBT003


class ConfigMapVolume(Part):
    """A ConfigMap of this namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap.")


class Medium(StrEnum):
    """Where an empty folder is."""

    MEMORY = "Memory"


class EmptyDirVolume(Part):
    """An empty folder that lives as long as the pod."""

    medium: Medium | None = Field(None, description="`Memory` for a folder in memory. Default: the disk.")
    size_limit: Quantity | None = Field(None, description="Most that it may hold. Default: the node's limit.")


class ImageVolume(Part):
    """The files of an OCI image, read-only."""

    reference: Image = Field(description="The image.")


_SOURCES = ("persistentVolumeClaim", "configMap", "emptyDir", "image")


def _one_source(volume: "Volume") -> bool:
    given = (volume.persistent_volume_claim, volume.config_map, volume.empty_dir, volume.image)
    return sum(source is not None for source in given) == 1


class Volume(Part):
    """A volume of the engines' pods."""

    name: Name = Field(description="Name of the volume.")
    persistent_volume_claim: ClaimVolume | None = Field(None, description="A PersistentVolumeClaim.")
    config_map: ConfigMapVolume | None = Field(None, description="A ConfigMap.")
    empty_dir: EmptyDirVolume | None = Field(None, description="An empty folder.")
    image: ImageVolume | None = Field(None, description="An OCI image.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"[{', '.join(f'has(self.{source})' for source in _SOURCES)}].filter(given, given).size() == 1",
            _one_source,
            "must have exactly one of `persistentVolumeClaim`, `configMap`, `emptyDir` and `image`",
        ),
    )


class Mount(Part):
    """Where a container sees a volume of `podTemplate.volumes`."""

    name: Name = Field(description="Name of the volume.")
    mount_path: Annotated[str, StringConstraints(max_length=512, pattern="^/[^:]*$")] = Field(
        description="Absolute path in the container."
    )
    sub_path: Annotated[str, StringConstraints(max_length=512), Must(_INSIDE)] | None = Field(
        None, description="Path inside the volume. Default: its root."
    )
    read_only: bool = Field(False, description="Whether it is read-only. Default: false.")  # noqa: FBT003


BY_PATH: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["mountPath"]}
Mounts = Annotated[tuple[Mount, ...], AfterValidator(_unique("mount_path"))]


class Sidecar(Part):
    """A container beside the engine, without privileges: it starts before the engine and stops after it."""

    name: Name = Field(description="Name of the container.")
    image: Image = Field(description="Its image, which must run as any user without privileges.")
    command: tuple[Argument, ...] = Field((), max_length=16, description="Its command. Default: the image's.")
    args: tuple[Argument, ...] = Field((), max_length=64, description="Its arguments. Default: the image's.")
    env: Environment = Field(
        (), max_length=32, description="Its environment. Default: none.", json_schema_extra=BY_NAME
    )
    resources: ResourcesSpec = Field(default_factory=ResourcesSpec, description="Its CPU and memory. Default: none.")
    volume_mounts: Mounts = Field(
        (), max_length=16, description="Volumes that it sees. Default: none.", json_schema_extra=BY_PATH
    )


class PodTemplateSpec(Part):
    """What the engines' pods get beside what the operator gives them."""

    labels: Labels = Field(default_factory=dict, description="Labels. Default: none. Change: rolling restart.")
    annotations: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=MAX_ANNOTATION_LENGTH)]], Field(max_length=32), Must(KEYS)
    ] = Field(default_factory=dict, description="Annotations. Default: none. Change: rolling restart.")
    volumes: Annotated[tuple[Volume, ...], AfterValidator(_unique("name"))] = Field(
        (), max_length=16, description="Volumes. Default: none. Change: rolling restart.", json_schema_extra=BY_NAME
    )
    volume_mounts: Mounts = Field(
        (),
        max_length=16,
        description="Where the engine sees these volumes. Default: nowhere. Change: rolling restart.",
        json_schema_extra=BY_PATH,
    )
    sidecars: Annotated[tuple[Sidecar, ...], AfterValidator(_unique("name"))] = Field(
        (),
        max_length=MAX_SIDECARS,
        description="Containers beside the engine. Default: none. Change: rolling restart.",
        json_schema_extra=BY_NAME,
    )
