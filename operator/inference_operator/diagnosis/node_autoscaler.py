"""The decision of a node autoscaler about an unschedulable pod. Only the pod's Events show it.

Message texts:

- cluster-autoscaler 1.36.1, `processors/status/eventing_scale_up_processor.go` (`TriggeredScaleUp`,
  `NotTriggerScaleUp`) and `processors/nodegroupset/nodegroup_set_processor.go` (`ScaleUpInfo.String`).
- Karpenter 1.14.0, `pkg/controllers/provisioning/scheduling/events.go` (`Nominated`, `FailedScheduling`). Events of the
  scheduler have the reason `FailedScheduling` too.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.component import DiagnosisInputs
from inference_operator.sentences import sentences
from inference_operator.text_tables import blocks
from inference_operator.views.lookups import EventsLookup, EventSummary, ObjectEvents
from inference_operator.views.pod import PodView

EVENTS_LOOKUP_AFTER = timedelta(seconds=15)
"""How long a pod may be unschedulable before its Events are looked up. cluster-autoscaler looks at pending pods every
10 s (`--scan-interval`, 1.36), and Karpenter collects them for 10 s at most (`--batch-max-duration`, 1.14)."""

_GROUP = re.compile(r"\{(?P<group>\S+) (?P<now>\d+)->(?P<then>\d+) \(max: \d+\)\}")
_CURES = blocks(__package__, "autoscaler-cures")


@dataclass(frozen=True, slots=True)
class AutoscalerAnswer:
    text: str
    """A sentence, with what to do about a known cause."""
    node_comes: bool


def autoscaler_due(pod: PodView) -> datetime | None:
    """When the Events of an unschedulable pod are worth a request; None for other pods."""
    if pod.problem is None or pod.problem.reason is not Reason.UNSCHEDULABLE or pod.created is None:
        return None
    return pod.created + EVENTS_LOOKUP_AFTER


def autoscaler_lookup(pod: PodView, inputs: DiagnosisInputs) -> EventsLookup | None:
    due = autoscaler_due(pod)
    return EventsLookup(inputs.namespace, pod.name, pod.uid) if due and due <= inputs.now else None


def autoscaler_answer(pod: PodView, inputs: DiagnosisInputs) -> AutoscalerAnswer | None:
    look = autoscaler_lookup(pod, inputs)
    events = inputs.lookups.get(look) if look else None
    answers = (_answer(event) for event in events.events) if isinstance(events, ObjectEvents) else ()
    return next((answer for answer in answers if answer), None)


def _answer(event: EventSummary) -> AutoscalerAnswer | None:
    """The decision that one Event shows; None if it shows none.

    Examples:
        >>> _answer(EventSummary("TriggeredScaleUp", "pod triggered scale-up: [{h100 0->1 (max: 4)}]")).text
        'cluster-autoscaler adds a node: `h100` grows from 0 to 1.'
        >>> _answer(EventSummary("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 not ready for scale-up")).text
        'cluster-autoscaler adds no node: 1 not ready for scale-up.'
        >>> _answer(EventSummary("Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p")).text
        'Karpenter has chosen a node for it: nodeclaim/gpu-x7k2p.'
    """
    cause = event.message.partition(": ")[2].rstrip(". ")
    match event.reason:
        case "TriggeredScaleUp":
            groups = [f"`{m['group']}` grows from {m['now']} to {m['then']}" for m in _GROUP.finditer(cause)]
            return AutoscalerAnswer(f"cluster-autoscaler adds a node: {', '.join(groups) or cause}.", node_comes=True)
        case "NotTriggerScaleUp":
            return _refusal("cluster-autoscaler", cause or "no node group fits")
        case "Nominated" if event.message.startswith("Pod should schedule on: "):
            return AutoscalerAnswer(f"Karpenter has chosen a node for it: {cause}.", node_comes=True)
        case "FailedScheduling" if event.message.startswith(_KARPENTER_FAILED):
            return _refusal("Karpenter", event.message.removeprefix(_KARPENTER_FAILED))
        case _:
            return None


_KARPENTER_FAILED = "Failed to schedule pod, "


def _refusal(autoscaler: str, cause: str) -> AutoscalerAnswer:
    cure = next((cure for words, cure in _CURES if words in cause), "")
    return AutoscalerAnswer(sentences(f"{autoscaler} adds no node: {cause}.", cure), node_comes=False)
