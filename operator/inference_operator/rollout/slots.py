"""How many more engines the nodes have room for."""

from dataclasses import dataclass

from inference_operator.manifest import Manifest
from inference_operator.observed.admission import admits
from inference_operator.observed.look import Gpus


@dataclass(frozen=True, slots=True)
class Slots:
    """Room for engines."""

    free: int
    """Engines that could start now."""
    possible: bool
    """Whether a node would have room for one if nothing else were on it."""


def slots_for(gpus: Gpus, pod: Manifest, amount: int) -> Slots:
    """Room for pods of this specification on the nodes that it may be on, by GPUs alone.

    Pods of ours that have no node yet will take theirs first: they are counted off.
    """
    nodes = [one for one in gpus.nodes if admits(one.node, pod)]
    free = sum(max(0, one.free) // amount for one in nodes)
    ahead = -(-gpus.awaited // amount)
    return Slots(max(0, free - ahead), possible=any(one.total >= amount for one in nodes))
