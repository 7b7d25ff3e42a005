"""Decides which groups a role has. A group is an engine over several nodes: a StatefulSet with one pod for each node.

The template of a group's pods never changes, so a rollout creates new groups and deletes old ones:

1. A group of the desired template is current; every other one is old. So are engines of a Deployment.
2. Without old engines, there are as many current groups as replicas are wanted.
3. With old ones, there is one current group more than serve. The rest follows when that one serves.
4. Surge: old engines that serve stay until current ones serve in their place.
   Replace: an old engine ends for each current group that is created, so that its GPUs are free.
5. An old group that does not serve ends at once. The newest stays until a current one exists: it has the records.
6. Of too many current groups, those end first that do not serve, then those with the fewest requests.
7. A new group gets the lowest slot whose name neither a StatefulSet nor a pod has.
8. With no replicas, the newest group stays without pods, for its records.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from inference_operator.api.spec import RolloutStrategy


@dataclass(frozen=True, slots=True)
class LiveGroup:
    slot: int
    """The number in its name."""
    is_current: bool
    """Whether its pods have the desired template."""
    serves: bool = False
    is_placed: bool = False
    """Whether each of its pods has a node."""
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that a role should have, by slot."""

    current: tuple[int, ...]
    """Those of the desired template, whether they exist or not."""
    old: tuple[int, ...] = ()
    """Old ones that stay as they are."""
    off: int | None = None
    """The one that stays without pods; None while replicas are wanted, or if there is none."""
    old_engines: int = 0


def groups(
    live: Sequence[LiveGroup], taken: Collection[int], replicas: int, strategy: RolloutStrategy, old_engines: int = 0
) -> Groups:
    """The groups of a role, by the rules at the top; live ones newest first.

    Slots are `taken` while their names are in use, also by pods of a group that is gone. `old_engines` of a Deployment
    serve.
    """
    if not replicas:
        newest = min(live, key=lambda group: not group.is_current, default=None)
        return Groups(current=(), off=newest.slot if newest else None)
    current = sorted(
        (group for group in live if group.is_current),
        key=lambda group: (not group.serves, not group.is_placed, -group.requests, group.slot),  # rule 6
    )
    old = [group for group in live if not group.is_current]
    serving = sum(group.serves for group in current)
    wanted = replicas
    if old_engines or any(group.serves for group in old):
        wanted = min(replicas, max(serving + 1, len(current)))
    kept = [group.slot for group in current[:wanted]]
    added = _free_slots(taken, wanted - len(kept))
    room = kept_engines(strategy, replicas, serving=serving, current=wanted)
    staying = [group.slot for group in old if group.serves][:room]
    if not staying and old and not current and strategy is RolloutStrategy.SURGE:
        staying = [old[0].slot]
    return Groups(
        current=(*sorted(kept), *added),
        old=tuple(sorted(staying)),
        old_engines=min(old_engines, max(0, room - len(staying))),
    )


def kept_engines(strategy: RolloutStrategy, replicas: int, *, serving: int, current: int) -> int:
    """The number of old engines that may stay beside those of the desired template that serve, and that exist."""
    return max(0, replicas - (current if strategy is RolloutStrategy.REPLACE else serving))


def _free_slots(taken: Collection[int], count: int) -> Iterator[int]:
    used = set(taken)
    for _ in range(count):
        slot = next(number for number in range(len(used) + 1) if number not in used)
        used.add(slot)
        yield slot
