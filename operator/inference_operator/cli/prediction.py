"""The objects that the operator will write for a resource, by its own decisions: `infd plan --diff`.

The operator decides again after its own writes. So do these rounds, on objects as the writes leave them, until nothing
is left to write. Pods and Jobs stand still meanwhile: what follows only once a pod is ready, or a Job has ended, is not
predicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from inference_operator.controller.changes import Apply, Change, Delete, changes
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome
from inference_operator.views.lookups import Lookup

MOST_ROUNDS = 5
"""A resource that has not settled after so many rounds waits for pods or Jobs."""
_OF_THE_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "ownerReferences")
_NEW_UID = "00000000-0000-0000-0000-000000000000"
"""Placeholder for the uid that the API server gives to a new object."""


@dataclass(frozen=True, slots=True)
class PredictedWrite:
    """What becomes of one object."""

    ref: Ref
    live: Manifest | None
    """None: it is created."""
    desired: Manifest | None
    """What is applied last; None: it is deleted."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the operator decides and writes until it waits for something."""

    outcome: Outcome
    """The last decision."""
    inputs: Inputs
    """The observations after the writes."""
    writes: tuple[PredictedWrite, ...]
    """In the order of the first write of each object."""
    lookups: tuple[Lookup, ...]
    """The lookups without a result that some decision needs."""


def prediction(inputs: Inputs) -> Prediction:
    """The writes that follow from what is observed. Deletions of pods, and labels of pods, are not among them.

    Args:
        inputs: the resource with the specification to predict for, and everything else as it is now.
    """
    first, written, unread = inputs.children, dict[Ref, Manifest | None](), dict[Lookup, None]()
    decided = outcome(inputs)
    for _ in range(MOST_ROUNDS):
        unread.update(dict.fromkeys(look for look in decided.lookups if look not in inputs.lookups))
        due = changes(inputs.children, decided.desired, (), inputs.resource.owner)
        if not due:
            break
        written.update({change.ref: change.manifest if isinstance(change, Apply) else None for change in due})
        inputs = replace(inputs, children=_after(inputs.children, due))
        decided = outcome(inputs)
    writes = (PredictedWrite(ref, first.get(ref), desired) for ref, desired in written.items())
    kept = tuple(one for one in writes if one.live is not None or one.desired is not None)
    return Prediction(decided, inputs, kept, tuple(unread))


def _after(children: Mapping[Ref, Manifest], due: list[Change]) -> Mapping[Ref, Manifest]:
    """The children after the writes of a round."""
    result = dict(children)
    for change in due:
        if isinstance(change, Apply):
            result[change.ref] = _applied(children.get(change.ref), change)
        elif isinstance(change, Delete):
            result.pop(change.ref, None)
    return result


def _applied(live: Manifest | None, change: Apply) -> Manifest:
    """An object after an apply: what was desired of it, and what the API server and controllers have added."""
    added = live or {"metadata": {"uid": _NEW_UID, "ownerReferences": [change.owner.reference]}}
    given = {name: added["metadata"][name] for name in _OF_THE_SERVER if name in added["metadata"]}
    status = {"status": added["status"]} if "status" in added else {}
    return {**change.manifest, **status, "metadata": {**change.manifest["metadata"], **given}}
