"""Rollout slots: whether an InferenceDeployment may begin with a change that its user has not made.

Changes of the administrator's settings concern all of them. Without slots, one bad value would replace the pods of all
services at once.
"""

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from inference_operator.api.rollouts import RolloutSettings
from inference_operator.manifest import Key


class FleetState(StrEnum):
    """State of the administrator's changes at one InferenceDeployment."""

    DONE = "done"
    """Its pods are as its specification and the administrator's settings say."""
    WAITING = "waiting"
    ROLLING = "rolling"
    FAILED = "failed"
    """Its pods were replaced, and it was healthy before and is not now."""
    UNDECIDED = "undecided"
    """Nothing is decided about it: it is paused, refused, or being deleted."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is known about all other InferenceDeployments when one is decided."""

    rolling: int = 0
    """InferenceDeployments that replace pods now for a change of the administrator."""
    is_stopped: bool = False
    """Whether others that are worse than before stop the change, or one was not looked at since the operator has
    started."""
    canary_is_done: bool = True
    """Whether the administrator's canary has the change and is healthy."""


NO_OTHERS = Fleet()
STOPPING = 2
"""Namespaces with a failure that stop a change for all, and failures in a namespace that stop it there."""


def stops(failed: AbstractSet[Key], own: Key | None, rollouts: RolloutSettings) -> bool:
    """Whether InferenceDeployments that are worse than before stop the change for another one.

    The administrator chose the canary, and two namespaces seldom have the same fault by chance. A single failure stops
    nothing: its fault may be its own, and its user must not hold a change of the administrator from all others. Several
    in one namespace stop those of this namespace, so a cluster with one namespace is protected too.

    Args:
        failed: those that were healthy before and are not now.
        own: the other one; None for all.

    Examples:
        >>> a, b, c = Key("team-a", "a"), Key("team-a", "b"), Key("team-b", "c")
        >>> [stops(failed, c, RolloutSettings()) for failed in ({a}, {a, b}, {a, Key("team-c", "d")})]
        [False, False, True]
        >>> stops({a, b}, Key("team-a", "e"), RolloutSettings()), stops({a}, c, RolloutSettings(canary="team-a/a"))
        (True, True)
    """
    by_namespace = Counter(key.namespace for key in failed)
    in_own = by_namespace[own.namespace] if own else 0
    return rollouts.canary_key in failed or len(by_namespace) >= STOPPING or in_own >= STOPPING


def may_begin(fleet: Fleet, own: Key, rollouts: RolloutSettings) -> bool:
    """Whether an InferenceDeployment may begin to replace its pods for a change of the administrator.

    Examples:
        >>> two_at_a_time, own = RolloutSettings(maxConcurrent=2), Key("team-a", "qwen")
        >>> [may_begin(Fleet(rolling=number), own, two_at_a_time) for number in (0, 1, 2)]
        [True, True, False]
    """
    waits_for_canary = rollouts.canary_key not in {None, own} and not fleet.canary_is_done
    return not (fleet.is_stopped or waits_for_canary) and fleet.rolling < rollouts.max_concurrent
