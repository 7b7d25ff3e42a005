"""How the engines' Deployment replaces its pods: the decision of the last change of its pods, in an annotation."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from pydantic import TypeAdapter, ValidationError

from inference_operator.api.spec import RolloutStrategy
from inference_operator.manifest import Manifest
from inference_operator.observed.raw import annotations

ROLLOUT_ANNOTATION = "inference-operator.dev/rollout"


class Why(StrEnum):
    """Why a rollout goes as it goes."""

    NOTHING_RUNS = "NothingRuns"
    ASKED = "Asked"
    FREE_SLOT = "FreeSlot"
    NO_FREE_SLOT = "NoFreeSlot"
    UNKNOWN = "Unknown"
    """Whether a slot is free could not be seen."""
    NO_USE = "NoUse"
    """No slot is free as far as is known, and ending an engine would not make one."""
    UNSCHEDULABLE = "Unschedulable"
    """The engine that was started beside the others found no room."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """A decision."""

    template: str
    """The hash of the pod template that it is about."""
    strategy: RolloutStrategy
    """`Surge` or `Replace`."""
    why: Why

    @property
    def text(self) -> str:
        """As stored in the annotation."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


_ADAPTER = TypeAdapter(Rollout)


def rollout_of(deployment: Manifest | None) -> Rollout | None:
    """The decision that a Deployment carries; None where there is none or a hand has broken it."""
    text = annotations(deployment).get(ROLLOUT_ANNOTATION)
    if text is None:
        return None
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError:
        return None
