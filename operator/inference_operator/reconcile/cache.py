"""What was last seen of the cluster: fed by watches and by our own writes, replaced by complete listings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

from inference_operator.api.reasons import ConditionType
from inference_operator.api.resource import resource
from inference_operator.manifest import INFERENCE_DEPLOYMENT, KIND, POD, Key, Kind, Manifest, Ref
from inference_operator.observed.answer import Answer, Applied, Deleted
from inference_operator.observed.look import Found, Look
from inference_operator.observed.pod import PodView, pod_view
from inference_operator.pipeline import Inputs
from inference_operator.reconcile.cluster import Listing
from inference_operator.reconcile.samples import SampleStore
from inference_operator.resources.names import COMPONENT_LABEL, NAME_LABEL
from inference_operator.settings import Settings

STATES = ("ready", "progressing", "stalled")
"""What kstatus makes of an InferenceDeployment; one that serves but whose last edit is refused is stalled."""


class Cache:
    """Objects by address, and by the InferenceDeployment that they belong to.

    Versions only grow: an event that is older than what is known, such as the echo of a state before our own write,
    is ignored.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._objects: dict[Ref, Manifest] = {}
        self._families: dict[Key, set[Ref]] = defaultdict(set)
        self._gone: dict[Ref, int] = {}
        """Versions at which objects were deleted, so that a listing from before does not bring them back."""
        self._seen: dict[Look, Found] = {}
        self.samples = SampleStore()
        """What the pods' metrics told last."""

    def known(self) -> list[Key]:
        """All InferenceDeployments that are known."""
        return [key_of(m) for r, m in self._objects.items() if r.kind == INFERENCE_DEPLOYMENT]

    def states(self) -> Mapping[str, int]:
        """How many InferenceDeployments are in which state, as kstatus reads their conditions."""
        raw = (m for r, m in self._objects.items() if r.kind == INFERENCE_DEPLOYMENT)
        counted = Counter(_state(m) for m in raw)
        return {state: counted[state] for state in STATES}

    def pods(self, key: Key) -> list[PodView]:
        """The pods of an InferenceDeployment."""
        return _pods(self._objects[ref] for ref in sorted(self._families.get(key, ())))

    def inputs(self, key: Key, *, now: datetime) -> Inputs | None:
        """Everything that a decision about a key needs; None where there is nothing to decide."""
        raw = self._objects.get(Ref(INFERENCE_DEPLOYMENT, key.namespace, key.name))
        if raw is None:
            return None
        asked = resource(raw)
        if asked.deleting:
            return None
        family = [self._objects[ref] for ref in sorted(self._families.get(key, ()))]
        pods = _pods(family)
        return Inputs(
            resource=asked,
            children={Ref.of(m): m for m in family if m["kind"] != POD.name and asked.owner.owns(m)},
            pods=pods,
            settings=self._settings,
            now=now,
            seen=MappingProxyType(self._seen),
            samples=self.samples.of(pods),
        )

    def see(self, look: Look, found: Found | None) -> None:
        """Remember what a look found; None: forget it, nobody wants it any more."""
        if found is None:
            self._seen.pop(look, None)
        else:
            self._seen[look] = found

    def note(self, answer: Answer) -> None:
        """Remember what a write brought about."""
        match answer:
            case Applied(manifest):
                self.put(manifest)
            case Deleted(ref):
                self.remove(ref)

    def put(self, manifest: Manifest) -> Key | None:
        """Remember an object; returns the key that it concerns, or None where nothing new is known."""
        ref, key = Ref.of(manifest), key_of(manifest)
        known = self._objects.get(ref)
        if _version(manifest) <= (self._gone.get(ref, -1) if known is None else _version(known)):
            return None
        if known is not None:
            self._leave(ref, key_of(known))
        self._objects[ref] = _slim(manifest)
        if ref.kind != INFERENCE_DEPLOYMENT:
            self._families[key].add(ref)
        return key

    def forget(self, manifest: Manifest) -> Key | None:
        """Forget an object that was deleted in this state, unless another of its name is known by now."""
        ref = Ref.of(manifest)
        self._gone[ref] = max(_version(manifest), self._gone.get(ref, -1))
        return self.remove(ref, version=_version(manifest))

    def remove(self, ref: Ref, *, version: int | None = None) -> Key | None:
        """Forget an object (if it is not newer than the version); returns the key that it concerned."""
        known = self._objects.get(ref)
        if known is None or (version is not None and _version(known) > version):
            return None
        del self._objects[ref]
        key = key_of(known)
        self._leave(ref, key)
        return key

    def replace(self, kind: Kind, listing: Listing) -> set[Key]:
        """Take a complete listing of a kind for the truth; returns the keys for which that changed something."""
        listed = {Ref.of(m): m for m in listing.items}

        def told_of(ref: Ref) -> bool:
            return ref.kind == kind and (listing.namespace is None or ref.namespace == listing.namespace)

        gone = [ref for ref in self._objects if ref not in listed and told_of(ref)]
        concerned = [self.remove(ref, version=listing.version) for ref in gone]
        concerned.extend(self.put(m) for m in listed.values())
        self._gone = {ref: at for ref, at in self._gone.items() if not told_of(ref) or at > listing.version}
        return {key for key in concerned if key is not None}

    def _leave(self, ref: Ref, key: Key) -> None:
        family = self._families.get(key)
        if family is not None:
            family.discard(ref)
            if not family:
                del self._families[key]


def _pods(family: Iterable[Manifest]) -> list[PodView]:
    pods = (manifest for manifest in family if manifest["kind"] == POD.name)
    return [pod_view(m, component=m["metadata"]["labels"].get(COMPONENT_LABEL, "")) for m in pods]


def key_of(manifest: Manifest) -> Key:
    """The key that an object concerns: itself, who owns it (a label can be edited), or whose label it carries."""
    meta = manifest["metadata"]
    if manifest["kind"] == INFERENCE_DEPLOYMENT.name:
        return Key(meta["namespace"], meta["name"])
    owners = (r["name"] for r in meta.get("ownerReferences") or () if r.get("kind") == KIND and r.get("controller"))
    return Key(meta["namespace"], next(owners, (meta.get("labels") or {}).get(NAME_LABEL, "")))


def _state(manifest: Manifest) -> str:
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    true = {c.get("type") for c in conditions if c.get("status") == "True"}
    if ConditionType.STALLED in true:
        return "stalled"
    return "ready" if ConditionType.READY in true else "progressing"


def _version(manifest: Manifest) -> int:
    text = manifest["metadata"].get("resourceVersion", "0")
    return int(text) if str(text).isdigit() else 0


def _slim(manifest: Manifest) -> Manifest:
    """Without managedFields, which are half of an object and which nothing reads."""
    meta = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
    return {**manifest, "metadata": meta}
