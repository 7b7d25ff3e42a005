"""The informer cache: the last known state of all objects, from watches, from own writes and from complete listings."""

import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterable, Container, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from inference_operator.api.resource import AnyResource
from inference_operator.controller.cached_object import CachedObject, Codec, version_of
from inference_operator.controller.cluster import Listing
from inference_operator.controller.node_store import NodeStore
from inference_operator.controller.resource_kind import KINDS, AnyResourceKind
from inference_operator.controller.sample_store import SampleStore, ScalingStore
from inference_operator.controller.shared_store import SharedStore
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import ENGINES, VLLM, EngineRegistry
from inference_operator.jobs.placement import mounted_claims
from inference_operator.manifest import (
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    SERVICE,
    STATEFUL_SET,
    Key,
    Kind,
    Manifest,
    Owner,
    Ref,
)
from inference_operator.objects.child import is_child, outlives_unnamed
from inference_operator.objects.names import ROUTER, is_role, slot_of, workload_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.roles.spec import RolePolicy, requested_roles
from inference_operator.settings import Settings
from inference_operator.status.write_results import Applied, Deleted, WriteResult
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.lookups import Lookup, LookupResult
from inference_operator.views.pod import PodView
from inference_operator.views.raw import mapping
from inference_operator.views.resource_figures import ResourceFigures

STATES = ("ready", "progressing", "stalled")
"""kstatus states of an InferenceDeployment. One that serves but whose last edit was refused is stalled."""


class Cache:
    """Objects by address, and by the resource that they belong to.

    Versions only grow. An event that is older than the cached object, for example of the state before an own write, is
    ignored. Only a listing can show that the cluster's state was restored from a backup, with larger versions; it then
    counts.
    """

    def __init__(
        self,
        settings: Settings,
        engines: EngineRegistry = ENGINES,
        roles: RolePolicy = requested_roles,
        kinds: Sequence[AnyResourceKind] = KINDS,
    ) -> None:
        self.kinds: Mapping[Kind, AnyResourceKind] = {kind.api.kind: kind for kind in kinds}
        self._settings = settings
        self._engines = engines
        self._roles = roles
        self._codec = Codec()
        self._objects: dict[Ref, CachedObject] = {}
        self._resources: dict[Key, CachedObject] = {}
        """The resources among the objects, by key: one object in ten, but read all the time."""
        self._by_owner: dict[Key, set[Ref]] = defaultdict(set)
        self._tombstones: dict[Ref, int] = {}
        """The versions at which objects were deleted. A listing or event from before does not bring them back."""
        self._lookups: dict[Lookup, LookupResult] = {}
        self.nodes = NodeStore()
        self.unavailable_kinds: Mapping[Kind, str] = {}
        self.samples = SampleStore()
        self.scaling = ScalingStore()
        self.shared = SharedStore(settings.rollouts, self.kinds, self._objects, self._resources)

    def resource_keys(self) -> list[Key]:
        return list(self._resources)

    def resources(self) -> Iterator[AnyResource]:
        """All resources, one decompressed at a time."""
        return (self.kinds[key.kind].api.parse(cached.manifest) for key, cached in self._resources.items())

    def unsettled(self) -> list[Key]:
        """The InferenceDeployments that a change of the nodes could help: all that are not ready with all replicas."""
        return [key for key, cached in self._resources.items() if not cached.settled]

    def keys_on(self, nodes: Container[str]) -> set[Key]:
        return {cached.key for cached in self._objects.values() if cached.pod and cached.pod.node in nodes}

    def states(self) -> Mapping[str, int]:
        """The number of InferenceDeployments in each state, as kstatus reads their conditions."""
        counted = Counter(cached.state for key, cached in self._resources.items() if key.kind == INFERENCE_DEPLOYMENT)
        return {state: counted[state] for state in STATES}

    def figures(self) -> Iterator[tuple[Key, ResourceFigures, list[EngineView], list[PodView]]]:
        """The figures, the engines and the routers' pods of every InferenceDeployment. Nothing is decompressed."""
        for key, cached in self._resources.items():
            if cached.figures:
                routers = [pod for pod in self.pods(key) if pod.component == ROUTER]
                yield key, cached.figures, self.engine_views(key), routers

    def pods(self, key: Key) -> list[PodView]:
        pods = {ref: pod for ref in self._by_owner.get(key, ()) if (pod := self._objects[ref].pod)}
        return [pods[ref] for ref in sorted(pods)]

    def engine_views(self, key: Key) -> list[EngineView]:
        """The engines of an InferenceDeployment. Pods of routers and Jobs are none: no role has their component."""
        return engines_of(pod for pod in self.pods(key) if self.engine(key, pod.component))

    def engine(self, key: Key, component: str) -> Engine | None:
        """The engine that runs in the pods of a component; None if the component is no role, such as the router."""
        if key.kind != INFERENCE_DEPLOYMENT or not is_role(component):
            return None
        cached = self._objects.get(Ref(DEPLOYMENT, key.namespace, workload_name(key.name, component)))
        if cached is None:
            groups = (ref for ref in self._by_owner.get(key, ()) if ref.kind == STATEFUL_SET)
            own = (ref for ref in groups if slot_of(ref.name, key.name, component) is not None)
            cached = next((self._objects[ref] for ref in own), None)
        return self._engines.get(cached.engine or self._engines.default) if cached else None

    def engine_of(self, key: Key, pod: PodView) -> Engine | None:
        """The engine that runs in a pod. During a rollout to another kind, a role has pods of both."""
        requested = self.engine(key, pod.component)
        return self._engines.get(pod.engine or VLLM) if requested else None

    def inputs(self, key: Key, *, now: datetime) -> Inputs[Any] | None:
        """Everything that a decision about a key needs; None if the resource is absent or being deleted."""
        cached = self._resources.get(key)
        if cached is None:
            return None
        live = cached.manifest
        requested: AnyResource = self.kinds[key.kind].api.parse(live)
        if requested.deleting:
            return None
        owned = [self._objects[ref] for ref in sorted(self._by_owner.get(key, ()))]
        pods, others = [one.pod for one in owned if one.pod], [one.manifest for one in owned if not one.pod]
        return Inputs(
            resource=requested,
            children=_children(others, requested.owner, since=_created(live)),
            pods=pods,
            settings=self._settings,
            now=now,
            lookups=MappingProxyType(self._lookups),
            samples=self.samples.of(pods),
            nodes=self.nodes.nodes,
            leaving=self.nodes.leaving,
            engines=self._engines,
            roles=self._roles,
            scaling=self.scaling.results(key),
            unavailable_kinds=self.unavailable_kinds,
            shared=self.shared.of(key, pods, now),
        )

    def put_lookup(self, look: Lookup, result: LookupResult | None) -> None:
        """Store the result of a lookup; None removes it, when no resource needs it any more."""
        if result is None:
            self._lookups.pop(look, None)
        else:
            self._lookups[look] = result

    def record(self, answer: WriteResult) -> frozenset[Key]:
        """Store the result of an own write; returns the resources that it concerns."""
        match answer:
            case Applied(manifest):
                return self.put(manifest)
            case Deleted(ref):
                if cached := self._objects.get(ref):
                    self._add_tombstone(ref, cached.version)
                return self.remove(ref)
        return frozenset()

    def put(self, manifest: Manifest, *, listed_at: int = -1) -> frozenset[Key]:
        """Store an object; returns the keys that it concerns, none if the cache had this version or a newer one.

        An object whose owner or label has changed concerns two: the former resource misses it now. A resource concerns
        those that follow it too.
        An object of a listing is the truth at the listing's version. If the cache has another one of that time, the
        cluster's history went back (etcd was restored with larger versions), and the listing counts.
        """
        ref, version = Ref.of(manifest), version_of(manifest)
        cached = self._objects.get(ref)
        known = self._tombstones.get(ref, -1) if cached is None else cached.version
        if version == known or (version < known and known > listed_at):
            return frozenset()
        if cached is not None:
            self._remove_from_owner(ref, cached.key)
        new = self._objects[ref] = self._codec.pack(manifest)
        if ref.kind.is_reconciled:
            self._resources[new.key] = new
            return frozenset({new.key}) | self.shared.followers(new.key)
        self._by_owner[new.key].add(ref)
        self.shared.fleet.see(ref, new.key if new.in_turn else None)
        return frozenset({new.key, cached.key if cached else new.key}) | self._readers(ref, new.key)

    def forget(self, manifest: Manifest) -> frozenset[Key]:
        """Remove an object that was deleted in this state, unless a newer one of its name is cached."""
        ref, version = Ref.of(manifest), version_of(manifest)
        self._add_tombstone(ref, version)
        return self.remove(ref, version=version)

    def remove(self, ref: Ref, *, version: int | None = None) -> frozenset[Key]:
        """Remove an object, unless it is newer than the version; returns the key that it concerned, if it was there."""
        cached = self._objects.get(ref)
        if cached is None or (version is not None and cached.version > version):
            return frozenset()
        del self._objects[ref]
        if ref.kind.is_reconciled:
            del self._resources[cached.key]
            self.shared.forget(cached.key)
            return frozenset({cached.key}) | self.shared.followers(cached.key)
        self.shared.fleet.see(ref, None)
        self._remove_from_owner(ref, cached.key)
        return frozenset({cached.key}) | self._readers(ref, cached.key)

    async def replace(self, kind: Kind, pages: AsyncIterable[Listing], concerned: set[Key] | None = None) -> set[Key]:
        """The keys for which something changed when the cache was made equal to a complete listing of a kind.

        Only one page is held at a time. The full manifests of thousands of objects would take most of the memory.
        Keys are added to `concerned`, also those of the pages before one that fails.
        """
        concerned, listed = set() if concerned is None else concerned, set[Ref]()
        async for page in pages:
            listed.update(Ref.of(item) for item in page.items)
            concerned.update(*(self.put(item, listed_at=page.version) for item in page.items))
        concerned.update(*self._remove_unlisted(kind, page, listed))
        return concerned

    def clear(self, kind: Kind, namespace: str | None) -> set[Key]:
        """Remove all objects of a kind that cannot be listed any more in a namespace (None: anywhere).

        Returns their keys.
        """
        nothing = Listing(items=(), version=sys.maxsize, namespace=namespace)
        return set().union(*self._remove_unlisted(kind, nothing, ()))

    def _remove_unlisted(self, kind: Kind, page: Listing, listed: Container[Ref]) -> list[frozenset[Key]]:
        """Remove the objects that are absent from the listing; returns the keys that they concerned."""
        absent = [ref for ref in self._objects if ref not in listed and page.covers(ref, kind)]
        self._tombstones = {
            ref: at for ref, at in self._tombstones.items() if not page.covers(ref, kind) or at > page.version
        }
        return [self.remove(ref, version=page.version) for ref in absent]

    def _readers(self, ref: Ref, key: Key) -> frozenset[Key]:
        """The resources whose decisions read this child of another one: its address."""
        return self.shared.followers(key) if ref.kind == SERVICE else frozenset()

    def _add_tombstone(self, ref: Ref, version: int) -> None:
        """Ignore this object in listings and events of this version or an older one."""
        self._tombstones[ref] = max(version, self._tombstones.get(ref, -1))

    def _remove_from_owner(self, ref: Ref, key: Key) -> None:
        refs = self._by_owner.get(key)
        if refs is not None:
            refs.discard(ref)
            if not refs:
                del self._by_owner[key]


def _children(owned: Sequence[Manifest], owner: Owner, *, since: str) -> dict[Ref, Manifest]:
    """The children among objects with the owner's name.

    A claim of a release that wrote no uid into it is one if the owner's pods mount it, or if it is not older than the
    owner, which was created at `since`. Another one was left by a former resource, perhaps of another account.
    """
    children = {Ref.of(manifest): manifest for manifest in owned if is_child(manifest, owner)}
    claims = {Ref.of(manifest): manifest for manifest in owned if outlives_unnamed(manifest, owner)}
    templates = [mapping(child, "spec", "template") for child in children.values()] if claims else []
    mounted = {name for template in templates for name in mounted_claims(mapping(template, "spec")).values()}
    return children | {ref: m for ref, m in claims.items() if ref.name in mounted or _created(m) >= since}


def _created(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("creationTimestamp", ""))
