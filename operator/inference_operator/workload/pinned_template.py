"""The pinned pod template: running engines keep it, so that an operator upgrade does not restart them.

Another release, or other settings, may build another template from the same specification. So the template is stored
in an annotation of the workload, with a hash of its inputs. It stays in use while the inputs are the same and an
engine made from it serves.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from inference_operator.objects.child import content_hash, manifest_hash
from inference_operator.objects.container import has_references
from inference_operator.objects.json_annotation import compact_json, parsed_json
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sizing.stored_plan import stored_pod_sizes
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import pod_template_hash
from inference_operator.views.raw import annotations, mapping

TEMPLATE_ANNOTATION = "inference-operator.dev/engine-template"
_NOT_OF_ENGINES: dict[str, bool | set[str]] = {
    **dict.fromkeys(("replicas", "autoscaling", "rollout", "router", "paused"), True),
    "cache": {"size", "storage_class", "access_mode", "retain"},
}
"""Fields of a specification that do not change an engine's pod. The plan's inputs tell whether there is a cache."""
_MAX_BYTES = 2**20
"""Of a template: an object of the API server has at most 1.5 MiB (etcd documentation, "System limits")."""


@dataclass(frozen=True, slots=True)
class _StoredTemplate:
    """The annotation's JSON."""

    inputsHash: str  # noqa: N815 - a key of the JSON
    hash: str
    template: Manifest


_ADAPTER = TypeAdapter(_StoredTemplate)


@dataclass(frozen=True, slots=True)
class PinnedTemplate:
    """A pod template and the hash of its inputs."""

    inputs_hash: str
    template: Manifest
    stored: str = field(default="", compare=False)
    """The annotation that it was parsed from; empty if it was built now."""

    @property
    def template_hash(self) -> str:
        """The hash that the template carries, and so its pods."""
        return pod_template_hash(self.template.get("metadata") or {}) or ""

    @property
    def text(self) -> str:
        """The annotation's value. One that was parsed is kept unchanged, so that no write is needed."""
        if self.stored:
            return self.stored
        return compact_json(asdict(_StoredTemplate(self.inputs_hash, manifest_hash(self.template), self.template)))


def pinned_template(text: object) -> PinnedTemplate | None:
    """Parse the annotation; None if it is absent, or was edited.

    Examples:
        >>> built = PinnedTemplate("0123", {"spec": {"containers": []}})
        >>> pinned_template(built.text) == built, pinned_template(built.text[:-12]), pinned_template(None)
        (True, None, None)
    """
    if not isinstance(text, str) or len(text) > _MAX_BYTES:
        return None
    parsed = parsed_json(text, _ADAPTER) if text.startswith("{") else _unpacked(text)
    if parsed is None or manifest_hash(parsed.template) != parsed.hash:
        return None
    return PinnedTemplate(parsed.inputsHash, parsed.template, stored=text)


def _unpacked(text: str) -> _StoredTemplate | None:
    """The same from the packed form that earlier builds wrote: two hashes, then zlib in base64."""
    inputs_hash, _, rest = text.partition(".")
    template_hash, _, packed = rest.partition(".")
    try:
        decompressor = zlib.decompressobj()
        template = json.loads(decompressor.decompress(base64.b64decode(packed, validate=True), _MAX_BYTES))
    except (ValueError, RecursionError, zlib.error):
        return None
    return _StoredTemplate(inputs_hash, template_hash, template) if isinstance(template, dict) else None


def template_inputs_hash(spec: Spec, pinned: PinnedPlan) -> str:
    """Hash of everything that a template is built from, settings and release aside.

    Fields with their default value are left out. So a field of a later release, or another default, changes nothing
    for those who do not use it.
    """
    requested = spec.model_dump(mode="json", exclude=_NOT_OF_ENGINES, exclude_defaults=True)
    return content_hash([requested, pinned.spec_hash, pinned.image, stored_pod_sizes(pinned.plan)])


def template_in_use(built: PinnedTemplate, live: Manifest | None, engines: Sequence[EngineView]) -> PinnedTemplate:
    """The template that engines should have: the pinned one if it has the same inputs and serves, else the new one.

    One in which Kubernetes would expand a string of the resource, as earlier releases wrote it, is never kept.

    Args:
        built: the template as this operator builds it.
        live: the live workload.
        engines: those of the role.
    """
    pinned = pinned_template(annotations(live).get(TEMPLATE_ANNOTATION))
    if pinned is None or pinned.inputs_hash != built.inputs_hash or has_references(mapping(pinned.template, "spec")):
        return built
    return pinned if any(one.template == pinned.template_hash and one.has_answered for one in engines) else built


def older_template(template: Manifest, built: Manifest) -> str:
    """A notice that engines keep an older template; empty if they do not."""
    if template == built:
        return ""
    return (
        "Engines keep their current pod template. This release, or its settings, would build another one. To restart"
        " the engines one by one with the new template, edit `spec.podTemplate.annotations`."
    )
