"""Content that running pods keep when the operator is upgraded: stored in an annotation of their workload.

Another release, or other settings, may build another pod template from the same specification. So the content is stored
with a hash of its inputs. It stays in use while the inputs are the same and a pod made from it serves.

Where some of the settings are inputs too, a second hash is of the inputs without them. It tells a change of the owner,
which the brake over the fleet may hold (`fleet/rollout_slots.py`), from one of the resource.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json

from inference_operator.manifest import Manifest
from inference_operator.non_defaults import field_values
from inference_operator.objects.annotation import EDITED, MAX_BYTES, Annotation, compact_json
from inference_operator.objects.child import manifest_hash
from inference_operator.views.pod import pod_template_hash


class PodContent(Protocol):
    """Everything that the pods of a workload are made from: a frozen dataclass, whose fields are stored."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def template(self) -> Manifest:
        """The pod template."""

    @property
    def hashed(self) -> object:
        """The JSON-like value whose hash is stored."""


T = TypeVar("T", bound=PodContent)


class PinUse(Enum):
    KEPT = auto()
    """They have it: its inputs are the same, and a pod serves."""
    BUILT = auto()
    """It is new: the resource was edited, nothing serves, or no pod is replaced for it."""
    SETTINGS = auto()
    """It is new: the owner's settings alone have changed."""
    HELD = auto()
    """They have it, although the owner's settings have changed: the brake holds the new one."""


@dataclass(frozen=True, slots=True)
class Pinned(Generic[T]):
    inputs_hash: str
    content: T
    stored: str = field(default="", compare=False)
    """The annotation that it was parsed from; empty if it was built now."""
    own_hash: str = ""
    """The hash of the inputs without the owner's settings; empty where no setting is an input."""

    @property
    def template_hash(self) -> str:
        return pod_template_hash(self.content.template.get("metadata") or {}) or ""


@dataclass(frozen=True, slots=True)
class _Hashes:
    """The keys of the annotation's JSON beside those of the content."""

    inputsHash: str  # noqa: N815 - a key of the JSON
    hash: str
    ownHash: str = ""  # noqa: N815 - a key of the JSON


_HASHES = TypeAdapter(_Hashes)


class PinAnnotation(Annotation[Pinned[T]]):
    def __init__(self, key: str, content: TypeAdapter[T], max_bytes: int = MAX_BYTES) -> None:
        super().__init__(key, max_bytes)
        self._content = content

    def write(self, value: Pinned[T]) -> str:
        """The text of a content. One that was read is kept unchanged, so that no write is needed."""
        if value.stored:
            return value.stored
        hashes = {"inputsHash": value.inputs_hash, "hash": manifest_hash(value.content.hashed)}
        if value.own_hash:
            hashes["ownHash"] = value.own_hash
        return compact_json({**hashes, **field_values(value.content)})

    def parsed(self, text: str) -> Pinned[T]:
        document = from_json(text)
        hashes, content = _HASHES.validate_python(document), self._content.validate_python(document)
        if manifest_hash(content.hashed) != hashes.hash:
            raise ValueError(EDITED)
        return Pinned(hashes.inputsHash, content, stored=text, own_hash=hashes.ownHash)

    def use(
        self, built: Pinned[T], live: Manifest | None, serving: Collection[str | None], *, may_begin: bool = True
    ) -> tuple[Pinned[T], PinUse]:
        """The content of pods, and why they get it, by the template hashes of the pods that have answered."""
        pinned = self.read(live)
        serves = pinned is not None and pinned.template_hash in serving
        if pinned and pinned.inputs_hash == built.inputs_hash:
            return (pinned, PinUse.KEPT) if serves else (built, PinUse.BUILT)
        if pinned is None or not _is_of_owner(pinned, built):
            return built, PinUse.BUILT
        return (pinned, PinUse.HELD) if serves and not may_begin else (built, PinUse.SETTINGS)


def _is_of_owner(pinned: Pinned[T], built: Pinned[T]) -> bool:
    """Whether pods would be replaced because the owner's settings alone have changed."""
    if not built.own_hash or pinned.template_hash == built.template_hash:
        return False
    return pinned.own_hash == built.own_hash
