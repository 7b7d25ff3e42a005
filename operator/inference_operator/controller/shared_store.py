"""What is observed of all resources together: one store, of which each decision may read what concerns it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from inference_operator.api.resource import AnyResource
from inference_operator.api.rollouts import RolloutSettings
from inference_operator.controller.cached_object import CachedObject
from inference_operator.controller.fleet_store import FleetStore
from inference_operator.controller.resource_kind import AnyResourceKind
from inference_operator.manifest import STATEFUL_SET, Key, Kind, Ref
from inference_operator.pipeline.inputs import Shared
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView
from inference_operator.workload.eviction.half_placed import HalfPlaced, half_placed, is_half_placed


class SharedStore:
    """Reads the objects of the cache; only how far changes of the owner's settings are is kept here.

    Args:
        kinds: the kinds of resources.
        objects: all objects.
        resources: the resources among them, by key.
    """

    def __init__(
        self,
        rollouts: RolloutSettings,
        kinds: Mapping[Kind, AnyResourceKind],
        objects: Mapping[Ref, CachedObject],
        resources: Mapping[Key, CachedObject],
    ) -> None:
        self._kinds = kinds
        self._objects = objects
        self._resources = resources
        self.fleet = FleetStore(rollouts, resources.keys())

    def of(self, key: Key, pods: Sequence[PodView], now: datetime) -> Shared:
        """What a decision about a resource with these pods may read."""
        return Shared(
            fleet=self.fleet.without(key, now),
            half_placed=self._half_placed() if any(map(is_half_placed, engines_of(pods))) else (),
            followed=tuple(self._followed(key)),
        )

    def followers(self, key: Key) -> frozenset[Key]:
        """The resources whose decisions read this one."""
        kinds = {name for name, kind in self._kinds.items() if key.kind in kind.follows}
        return frozenset(
            other for other in (self._resources if kinds else ()) if other.kind in kinds and _together(other, key)
        )

    def _followed(self, key: Key) -> Iterator[AnyResource]:
        follows = self._kinds[key.kind].follows
        for other, cached in self._resources.items() if follows else ():
            if other.kind in follows and _together(other, key):
                yield self._kinds[other.kind].api.parse(cached.manifest)

    def _half_placed(self) -> Sequence[HalfPlaced]:
        """The half-placed groups of all InferenceDeployments. Only their StatefulSets are decompressed."""
        pods: dict[str, list[PodView]] = defaultdict(list)
        for ref, cached in self._objects.items():
            if cached.pod and cached.pod.group:
                pods[ref.namespace].append(cached.pod)
        groups: list[HalfPlaced | None] = []
        for namespace, members in pods.items():
            for engine in filter(is_half_placed, engines_of(members)):
                group = self._objects.get(Ref(STATEFUL_SET, namespace, engine.leader.group))
                groups.append(half_placed(engine, group.manifest) if group else None)
        return [group for group in groups if group is not None]


def _together(other: Key, key: Key) -> bool:
    return other.namespace == key.namespace and other != key
