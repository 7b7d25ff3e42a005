"""What was last seen of the cluster: fed by watches and by our own writes, replaced by complete listings."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterable, Container, Mapping
from datetime import datetime
from types import MappingProxyType

from inference_operator.api.resource import resource
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Key, Kind, Manifest, Ref
from inference_operator.observed.answer import Answer, Applied, Deleted
from inference_operator.observed.look import Found, Look
from inference_operator.observed.pod import PodView
from inference_operator.pipeline import Inputs
from inference_operator.reconcile.cluster import Listing
from inference_operator.reconcile.kept import Keeper, Kept, version_of
from inference_operator.reconcile.nodes import NodeStore
from inference_operator.reconcile.samples import SampleStore
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
        self._keeper = Keeper()
        self._objects: dict[Ref, Kept] = {}
        self._asked: dict[Key, Kept] = {}
        """The InferenceDeployments among them: one in ten, and asked for all the time."""
        self._families: dict[Key, set[Ref]] = defaultdict(set)
        self._gone: dict[Ref, int] = {}
        """Versions at which objects were deleted, so that no listing or event from before brings them back."""
        self._seen: dict[Look, Found] = {}
        self.nodes = NodeStore()
        """The nodes with GPUs."""
        self.samples = SampleStore()
        """What the pods' metrics told last."""

    def known(self) -> list[Key]:
        """All InferenceDeployments that are known."""
        return list(self._asked)

    def unsettled(self) -> list[Key]:
        """The InferenceDeployments that nodes could make a difference to: all that do not serve as they are asked."""
        return [key for key, one in self._asked.items() if not one.settled]

    def states(self) -> Mapping[str, int]:
        """How many InferenceDeployments are in which state, as kstatus reads their conditions."""
        counted = Counter(one.state for one in self._asked.values())
        return {state: counted[state] for state in STATES}

    def pods(self, key: Key) -> list[PodView]:
        """The pods of an InferenceDeployment."""
        found = {ref: pod for ref in self._families.get(key, ()) if (pod := self._objects[ref].pod)}
        return [found[ref] for ref in sorted(found)]

    def inputs(self, key: Key, *, now: datetime) -> Inputs | None:
        """Everything that a decision about a key needs; None where there is nothing to decide."""
        raw = self._asked.get(key)
        if raw is None:
            return None
        asked = resource(raw.manifest)
        if asked.deleting:
            return None
        pods, others = self.pods(key), (one.manifest for one in self._family(key) if not one.pod)
        return Inputs(
            resource=asked,
            children={Ref.of(m): m for m in others if asked.owner.owns(m)},
            pods=pods,
            settings=self._settings,
            now=now,
            seen=MappingProxyType(self._seen),
            samples=self.samples.of(pods),
            nodes=self.nodes.nodes,
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
                if known := self._objects.get(ref):
                    self._bury(ref, known.version)
                self.remove(ref)

    def put(self, manifest: Manifest) -> Key | None:
        """Remember an object; returns the key that it concerns, or None where nothing new is known."""
        ref, version = Ref.of(manifest), version_of(manifest)
        known = self._objects.get(ref)
        if version <= (self._gone.get(ref, -1) if known is None else known.version):
            return None
        if known is not None:
            self._leave(ref, known.key)
        one = self._objects[ref] = self._keeper.keep(manifest)
        if ref.kind == INFERENCE_DEPLOYMENT:
            self._asked[one.key] = one
        else:
            self._families[one.key].add(ref)
        return one.key

    def forget(self, manifest: Manifest) -> Key | None:
        """Forget an object that was deleted in this state, unless another of its name is known by now."""
        ref, version = Ref.of(manifest), version_of(manifest)
        self._bury(ref, version)
        return self.remove(ref, version=version)

    def remove(self, ref: Ref, *, version: int | None = None) -> Key | None:
        """Forget an object (if it is not newer than the version); returns the key that it concerned."""
        known = self._objects.get(ref)
        if known is None or (version is not None and known.version > version):
            return None
        del self._objects[ref]
        if ref.kind == INFERENCE_DEPLOYMENT:
            del self._asked[known.key]
        self._leave(ref, known.key)
        return known.key

    async def replace(self, kind: Kind, pages: AsyncIterable[Listing]) -> set[Key]:
        """Take a complete listing of a kind for the truth; returns the keys for which that changed something.

        Of each page only what is `Kept` is held, since thousands of objects as they come take most of a process.
        """
        listed, concerned = set[Ref](), set[Key | None]()
        async for page in pages:
            listed.update(Ref.of(one) for one in page.items)
            concerned.update(self.put(one) for one in page.items)
        concerned.update(self._remove_unlisted(kind, page, listed))
        return {key for key in concerned if key is not None}

    def _remove_unlisted(self, kind: Kind, page: Listing, listed: Container[Ref]) -> list[Key | None]:
        """Forget what a listing would have shown and did not; returns the keys that it concerned."""

        def told_of(ref: Ref) -> bool:
            return ref.kind == kind and (page.namespace is None or ref.namespace == page.namespace)

        gone = [ref for ref in self._objects if ref not in listed and told_of(ref)]
        self._gone = {ref: at for ref, at in self._gone.items() if not told_of(ref) or at > page.version}
        return [self.remove(ref, version=page.version) for ref in gone]

    def _family(self, key: Key) -> list[Kept]:
        return [self._objects[ref] for ref in sorted(self._families.get(key, ()))]

    def _bury(self, ref: Ref, version: int) -> None:
        """Let nothing that is told of an object from up to this version bring it back."""
        self._gone[ref] = max(version, self._gone.get(ref, -1))

    def _leave(self, ref: Ref, key: Key) -> None:
        family = self._families.get(key)
        if family is not None:
            family.discard(ref)
            if not family:
                del self._families[key]
