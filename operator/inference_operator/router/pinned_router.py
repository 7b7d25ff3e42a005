"""The pinned router: pod template and configuration that running routers keep when the operator is upgraded.

Another release, or another router image, may build both differently from the same specification. So they are stored
together in one annotation of the router Deployment, with a hash of their inputs. They stay in use while the inputs are
the same and a router made from them is ready.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from inference_operator.manifest import Manifest
from inference_operator.objects.child import manifest_hash
from inference_operator.objects.container import has_references
from inference_operator.objects.json_annotation import compact_json, parsed_json
from inference_operator.router.inputs import RouterInputs, Upstream
from inference_operator.views.pod import PodView, has_answered, pod_template_hash
from inference_operator.views.raw import annotations, mapping

ROUTER_ANNOTATION = "inference-operator.dev/router-template"
_OTHER_OBJECTS = {"replicas", "service", "ingress", "http_route"}
"""Fields of `spec.router` that change neither the pod template nor the configuration."""
SLOTS_ANNOTATION = "inference-operator.dev/slots"
"""Server slots of the configuration. It is read back, so that scaling down does not change the configuration."""

_COUNT = re.compile("[0-9]{1,4}")
"""Four digits are enough for the largest number of replicas; a longer number is a mistake of somebody who edited it."""
MAX_BYTES = 192 * 1024
"""Longest annotation. All annotations of an object have at most 256 KiB (apimachinery 0.36, pkg/api/validation,
`TotalAnnotationSizeLimitB`), and pod templates with many additions have large ones of their own."""


@dataclass(frozen=True, slots=True)
class _StoredRouter:
    """The annotation's JSON."""

    inputsHash: str  # noqa: N815 - a key of the JSON
    hash: str
    """Of slots, template and files."""
    slots: int
    template: Manifest
    files: dict[str, str]


_ADAPTER = TypeAdapter(_StoredRouter)


@dataclass(frozen=True, slots=True)
class PinnedRouter:
    """Pod template and configuration of routers, and the hash of their inputs."""

    inputs_hash: str
    slots: int
    """Server slots of the configuration."""
    template: Manifest
    files: Mapping[str, str]
    """Files of the configuration folder by name."""
    stored: str = field(default="", compare=False)
    """The annotation that it was parsed from; empty if it was built now."""

    @property
    def text(self) -> str:
        """The annotation's value. One that was parsed is kept unchanged, so that no write is needed."""
        if self.stored:
            return self.stored
        stored = _StoredRouter(self.inputs_hash, self._hash, self.slots, self.template, dict(self.files))
        return compact_json(asdict(stored))

    @property
    def annotations(self) -> dict[str, str]:
        """The annotation for the Deployment; none if it is too long: then these routers are not kept at an upgrade."""
        return {ROUTER_ANNOTATION: self.text} if len(self.text) <= MAX_BYTES else {}

    @property
    def _hash(self) -> str:
        return manifest_hash([self.slots, self.template, dict(self.files)])

    def is_intact(self, stored_hash: str) -> bool:
        """Whether the content is what was stored with this hash."""
        return self._hash == stored_hash

    @property
    def template_hash(self) -> str:
        """The hash that the template carries, and so its pods."""
        return pod_template_hash(self.template.get("metadata") or {}) or ""


def pinned_router(text: object) -> PinnedRouter | None:
    """Parse the annotation; None if it is absent, or was edited.

    Examples:
        >>> built = PinnedRouter("0123", 32, {"spec": {"containers": []}}, {"haproxy.cfg": "global"})
        >>> pinned_router(built.text) == built, pinned_router(built.text[:-12]), pinned_router(None)
        (True, None, None)
    """
    if not isinstance(text, str) or len(text) > MAX_BYTES:
        return None
    parsed = parsed_json(text, _ADAPTER)
    if parsed is None:
        return None
    router = PinnedRouter(parsed.inputsHash, parsed.slots, parsed.template, parsed.files, stored=text)
    return router if router.is_intact(parsed.hash) else None


def live_slots(deployment: Manifest | None, config: Manifest | None) -> int:
    """Server slots of the pinned router, else of the live configuration; 0 where there is none, or it was edited.

    Args:
        deployment: the live Deployment of the routers.
        config: their live ConfigMap.
    """
    if pinned := pinned_router(annotations(deployment).get(ROUTER_ANNOTATION)):
        return pinned.slots
    text = annotations(config).get(SLOTS_ANNOTATION, "")
    return int(text) if _COUNT.fullmatch(text) else 0


def router_inputs(inputs: RouterInputs) -> Manifest:
    """Everything that template and configuration are built from, release and the operator's image aside.

    They are `spec.router` over the owner's defaults, and what the engines are: their name, port, limits and slots.
    Values that are the default or empty are left out. So a field of a later
    release changes nothing for those who do not use it. Paths of the API come from the release and are no input.
    """
    first = inputs.upstreams[0]
    found: Manifest = {
        "engines_host": first.host,
        "engine_port": first.port,
        "engine_health_path": first.health_path,
        "engine_max_concurrency": first.max_concurrency,
        "model_names": list(inputs.model_names),
        "slots": inputs.slots,
        "drain_seconds": inputs.drain_seconds,
        "upstreams": [_facts(one) for one in inputs.upstreams] if len(inputs.upstreams) > 1 else [],
    }
    return {
        **{name: value for name, value in found.items() if value},
        "spec": inputs.spec.model_dump(mode="json", exclude=_OTHER_OBJECTS, exclude_defaults=True),
        "defaults": inputs.settings.router_defaults.model_dump(mode="json", exclude_defaults=True),
    }


def _facts(upstream: Upstream) -> Manifest:
    facts = asdict(upstream)
    del facts["api_paths"]
    return facts


def router_in_use(built: PinnedRouter, live: Manifest | None, pods: Sequence[PodView]) -> PinnedRouter:
    """What routers should have: the pinned one if it has the same inputs and a router of it is ready, else the new one.

    One in which Kubernetes would expand a string of the resource, as earlier releases wrote it, is never kept.

    Args:
        built: the router as this operator builds it.
        live: the live Deployment of the routers.
        pods: the router pods.
    """
    pinned = pinned_router(annotations(live).get(ROUTER_ANNOTATION))
    if pinned is None or pinned.inputs_hash != built.inputs_hash or has_references(mapping(pinned.template, "spec")):
        return built
    return pinned if any(pod.template == pinned.template_hash and has_answered(pod) for pod in pods) else built


def older_router(used: PinnedRouter, built: PinnedRouter) -> str:
    """A notice that routers keep an older pod template or configuration; empty if they do not."""
    if used == built:
        return ""
    return (
        "Routers keep their current pod template and configuration. This release, or its settings, would build others."
        " To replace the routers one by one, edit `spec.router.podTemplate.annotations`."
    )
