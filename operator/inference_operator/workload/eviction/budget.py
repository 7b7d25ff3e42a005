"""How many pods a disruption budget keeps: the one law for engines, groups and routers.

1. Nothing leaves and nothing is refused: no number. One pod may go while all others are ready.
2. An eviction is refused: all pods of the engines that are wanted stay. While a node leaves, the successors count too:
   one pod may go once they serve. Of engines of several sizes the largest counts.
3. A node leaves and nothing is refused: one pod may go of those that are wanted, and of those that serve. With one pod
   its whole group ends, so it is only one, however many pods an engine has. Of several sizes the smallest counts.
4. Where nothing is decided (paused, refused, waiting for the model), no successor starts. Engines that do not exist are
   not wanted then, and a budget that refuses is kept as it is until a node leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """The engines of a role, or the routers, as their budget sees them."""

    wanted: int
    planned_pods: int = 1
    serving: Sequence[int] = ()
    """Pods of each engine that serves."""
    leaves: bool = False
    refuses: bool = False
    existing: int | None = None
    """Engines that exist, where nothing is decided; None where the wanted ones are made."""
    kept: int | None = None
    """The pods that the live budget keeps, where nothing is decided."""

    @property
    def keeps(self) -> int | None:
        """The pods that stay; None to let one go while all others are ready."""
        if self.existing is None:
            return self._limit(self.wanted, refuses=self.refuses)
        wanted = min(self.wanted, self.existing)
        refuses = self.refuses and not self.leaves and wanted == 1 and self.kept is not None
        limit = self._limit(wanted, refuses=refuses)
        return max(limit, self.kept or 0) if refuses and limit is not None else limit

    def _limit(self, wanted: int, *, refuses: bool) -> int | None:
        if refuses:
            pods = max([self.planned_pods, *self.serving])
            return wanted * pods + (pods - 1 if self.leaves else 0)
        if not self.leaves:
            return None
        pods = min(self.serving, default=self.planned_pods)
        return max(1, wanted * pods, sum(self.serving)) - 1
