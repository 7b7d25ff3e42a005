"""The brake: whether an InferenceDeployment may begin with a change that its user has not made.

Changes of the owner's settings concern all of them. Without a brake, one bad value would replace the pods of all
services at once.
"""

from dataclasses import dataclass
from enum import StrEnum

from inference_operator.api.rollouts import RolloutSettings
from inference_operator.manifest import Key


class FleetState(StrEnum):
    """How far the owner's changes are at one InferenceDeployment."""

    DONE = "done"
    """Its pods are as its specification and the owner's settings say."""
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
    """Those that replace pods now for a change of the owner."""
    is_stopped: bool = False
    """Whether one of them is worse than before, or not looked at since the operator has started."""
    canary_is_done: bool = True
    """Whether the owner's canary has the change and is healthy."""


NO_OTHERS = Fleet()


def may_begin(fleet: Fleet, own: Key, rollouts: RolloutSettings) -> bool:
    """Whether an InferenceDeployment may begin to replace its pods for a change of the owner.

    Args:
        fleet: all others.
        own: the one.
        rollouts: the owner's setting.

    Examples:
        >>> two_at_a_time, own = RolloutSettings(maxConcurrent=2), Key("team-a", "qwen")
        >>> [may_begin(Fleet(rolling=number), own, two_at_a_time) for number in (0, 1, 2)]
        [True, True, False]
    """
    waits_for_canary = rollouts.canary_key not in {None, own} and not fleet.canary_is_done
    return not (fleet.is_stopped or waits_for_canary) and fleet.rolling < rollouts.max_concurrent
