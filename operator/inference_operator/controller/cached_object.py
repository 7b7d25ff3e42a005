"""The form in which the cache holds an object: compressed JSON, because most objects are rarely read."""

import zlib
from dataclasses import dataclass

import orjson

from inference_operator.api.reasons import ConditionType
from inference_operator.fleet.rollout_slots import recorded_turn
from inference_operator.manifest import (
    API_VERSION,
    INFERENCE_DEPLOYMENT,
    KIND,
    POD,
    Key,
    Manifest,
    controller_of,
    kind_of,
)
from inference_operator.objects.names import COMPONENT_LABEL, KIND_LABEL, NAME_LABEL
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.views.pod import PodView, pod_view
from inference_operator.views.raw import objects
from inference_operator.views.resource_figures import ResourceFigures, resource_figures
from inference_operator.views.workload import WORKLOAD_KINDS

_WORKLOADS = frozenset(kind.name for kind in WORKLOAD_KINDS)

FASTEST = 1
SEGMENT_BYTES, OVERLAP_BYTES = 12 * 1024, 4 * 1024
"""A text is compressed in segments. The dictionary of each is the same place of another object's text, with so many
bytes around it: zlib looks back 32 KiB at most, and the Deployment of a router is longer. A resource and its children
(90 KiB without managedFields) so become 4 KiB, in 0.5 ms; in one segment they would be 12 KiB."""
MOST_DICTIONARIES = 64
"""So many texts are kept at most as dictionaries, whatever people write into the labels that tell them apart."""


@dataclass(frozen=True, slots=True)
class CachedObject:
    version: int
    key: Key
    state: str
    """The kstatus state; of a resource only."""
    settled: bool
    """Whether no change of the nodes could help it: an InferenceDeployment that is ready with all replicas."""
    figures: ResourceFigures | None
    """The figures for its metrics; of an InferenceDeployment only."""
    pod: PodView | None
    """The view of a pod; nothing else of a pod is kept."""
    engine: str
    """Name of the engine that a role's workload runs; empty for every other object."""
    in_turn: bool
    """Whether its pods are replaced for a change of the owner's settings; of a workload only."""
    packed: tuple[bytes, ...]
    """The compressed segments of the object; none for a pod."""
    dictionary: bytes
    """The text whose places are the zlib dictionaries of the segments."""

    @property
    def manifest(self) -> Manifest:
        """The object, without managedFields, except those of `/scale`."""
        parts = (
            zlib.decompressobj(zdict=_place(self.dictionary, number)).decompress(segment)
            for number, segment in enumerate(self.packed)
        )
        manifest: Manifest = orjson.loads(b"".join(parts))
        return manifest


class Codec:
    """Compresses objects. The first one of a kind and component is the dictionary for all others, which are like it."""

    def __init__(self) -> None:
        self._dictionaries: dict[tuple[str, str], bytes] = {}

    def pack(self, manifest: Manifest) -> CachedObject:
        kind, meta = manifest["kind"], manifest["metadata"]
        of_engines, is_resource = kind == INFERENCE_DEPLOYMENT.name, kind_of(manifest).is_reconciled
        # labels of a resource are its users': many different ones would use up the dictionaries
        component = "" if is_resource else str((meta.get("labels") or {}).get(COMPONENT_LABEL, ""))
        view = pod_view(manifest, component=component) if kind == POD.name else None
        packed, dictionary = ((), b"") if view else self._compressed(manifest, component)
        return CachedObject(
            version=version_of(manifest),
            key=key_of(manifest),
            state=_state(manifest) if is_resource else "",
            settled=_is_settled(manifest) if of_engines else is_resource,
            figures=resource_figures(manifest) if of_engines else None,
            pod=view,
            engine=PLAN_ANNOTATION.engine(manifest) if kind in _WORKLOADS else "",
            in_turn=kind in _WORKLOADS and recorded_turn(manifest) is not None,
            packed=packed,
            dictionary=dictionary,
        )

    def _compressed(self, manifest: Manifest, component: str) -> tuple[tuple[bytes, ...], bytes]:
        """The segments of the object without managedFields (half of an object), and its dictionary.

        Only those of the subresource `scale` stay: they are few, and name other autoscalers.
        """
        meta = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
        if scaled := [
            entry for entry in objects(manifest["metadata"], "managedFields") if entry.get("subresource") == "scale"
        ]:
            meta["managedFields"] = scaled
        text = orjson.dumps({**manifest, "metadata": meta})
        dictionary = self._dictionary(manifest["kind"], component, text)
        starts = range(0, len(text), SEGMENT_BYTES)
        segments = (_compressed(text[at : at + SEGMENT_BYTES], _place(dictionary, n)) for n, at in enumerate(starts))
        return tuple(segments), dictionary

    def _dictionary(self, kind: str, component: str, text: bytes) -> bytes:
        if len(self._dictionaries) < MOST_DICTIONARIES:
            self._dictionaries.setdefault((kind, component), text)
        return self._dictionaries.get((kind, component), b"")


def _compressed(segment: bytes, dictionary: bytes) -> bytes:
    compressor = zlib.compressobj(FASTEST, zdict=dictionary)
    return compressor.compress(segment) + compressor.flush()


def _place(dictionary: bytes, number: int) -> bytes:
    """The part of a dictionary for a segment, with the bytes around it."""
    start = number * SEGMENT_BYTES
    return dictionary[max(0, start - OVERLAP_BYTES) : start + SEGMENT_BYTES + OVERLAP_BYTES]


def key_of(manifest: Manifest) -> Key:
    """The key that an object concerns: its own, else its owner's (a label can be edited), else that in its labels."""
    meta, kind, labels = manifest["metadata"], kind_of(manifest), manifest["metadata"].get("labels") or {}
    if kind.is_reconciled:
        return Key(meta["namespace"], meta["name"], kind)
    owner = controller_of(manifest)
    if owner.get("apiVersion") != API_VERSION:
        owner = {"apiVersion": API_VERSION, "kind": labels.get(KIND_LABEL, KIND), "name": labels.get(NAME_LABEL, "")}
    return Key(meta["namespace"], owner["name"], kind_of(owner))


def version_of(manifest: Manifest) -> int:
    """The resourceVersion, which grows (comparable since Kubernetes 1.35, KEP-5504); 0 if there is none."""
    text = str(manifest["metadata"].get("resourceVersion", "0"))
    return int(text) if text.isdecimal() else 0


def _state(manifest: Manifest) -> str:
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    true = {c.get("type") for c in conditions if c.get("status") == "True"}
    if ConditionType.STALLED in true:
        return "stalled"
    return "ready" if ConditionType.READY in true else "progressing"


def _is_settled(manifest: Manifest) -> bool:
    scaled = (manifest.get("status") or {}).get("autoscaling") or {}
    wanted = scaled.get("desiredReplicas", (manifest.get("spec") or {}).get("replicas", 1))
    return _state(manifest) == "ready" and (manifest.get("status") or {}).get("readyReplicas", 0) == wanted
