"""Content that running pods keep when the operator is upgraded: stored in an annotation of their workload.

Another release, or other settings, may build another pod template from the same specification. So the content is stored
with a hash of its inputs. It stays in use while the inputs are the same and a pod made from it serves.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json

from inference_operator.manifest import Manifest
from inference_operator.objects.child import manifest_hash
from inference_operator.objects.json_annotation import compact_json
from inference_operator.views.pod import pod_template_hash
from inference_operator.views.raw import annotations


class PodContent(Protocol):
    """Everything that the pods of a workload are made from: a frozen dataclass."""

    @property
    def template(self) -> Manifest:
        """The pod template."""

    @property
    def fields(self) -> Manifest:
        """Its fields as they are stored."""

    @property
    def hashed(self) -> object:
        """The JSON-like value whose hash is stored."""


T = TypeVar("T", bound=PodContent)


@dataclass(frozen=True, slots=True)
class Pinned(Generic[T]):
    """The content of pods, and the hash of its inputs."""

    inputs_hash: str
    content: T
    stored: str = field(default="", compare=False)
    """The annotation that it was parsed from; empty if it was built now."""

    @property
    def template_hash(self) -> str:
        """The hash that the template carries, and so its pods."""
        return pod_template_hash(self.content.template.get("metadata") or {}) or ""

    @property
    def text(self) -> str:
        """The annotation's value. One that was parsed is kept unchanged, so that no write is needed."""
        if self.stored:
            return self.stored
        hashes = {"inputsHash": self.inputs_hash, "hash": manifest_hash(self.content.hashed)}
        return compact_json({**hashes, **self.content.fields})


@dataclass(frozen=True, slots=True)
class _Hashes:
    """The keys of the annotation's JSON beside those of the content."""

    inputsHash: str  # noqa: N815 - a key of the JSON
    hash: str


_HASHES = TypeAdapter(_Hashes)


@dataclass(frozen=True, slots=True)
class PinAnnotation(Generic[T]):
    """An annotation in which the pinned content of a workload is stored."""

    name: str
    content: TypeAdapter[T]
    max_bytes: int
    """A longer one is not read."""

    def pinned(self, workload: Manifest | None) -> Pinned[T] | None:
        """The pinned content of a live workload; None if it has none, or its annotation was edited."""
        text = annotations(workload).get(self.name)
        if not isinstance(text, str) or len(text) > self.max_bytes:
            return None
        try:
            document = from_json(text)
            hashes, content = _HASHES.validate_python(document), self.content.validate_python(document)
        except (ValueError, RecursionError):
            return None
        return Pinned(hashes.inputsHash, content, stored=text) if manifest_hash(content.hashed) == hashes.hash else None

    def in_use(self, built: Pinned[T], live: Manifest | None, serving: Collection[str | None]) -> Pinned[T]:
        """The content of pods: the pinned one if it has the same inputs and serves, else the new one.

        Args:
            built: the content as this operator builds it.
            live: the live workload.
            serving: template hashes of the pods that have answered.
        """
        pinned = self.pinned(live)
        if pinned is None or pinned.inputs_hash != built.inputs_hash:
            return built
        return pinned if pinned.template_hash in serving else built
