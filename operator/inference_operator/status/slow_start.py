"""An engine that has not answered in time, so that its kubelet ended it; only Events tell that."""

from inference_operator.api.duration import in_words
from inference_operator.engines.chosen import chosen_engine
from inference_operator.observed.deployment import deployment_view
from inference_operator.observed.look import EventsOf, Log, Told
from inference_operator.observed.pod import Ended, PodView
from inference_operator.pipeline import Inputs
from inference_operator.resources.names import ENGINE
from inference_operator.status.start import WORDS

_END = f"Container {ENGINE} failed startup probe"
"""How the kubelet begins to say it (Kubernetes 1.36, pkg/kubelet/kuberuntime/kuberuntime_manager.go)."""


_ALL = 0.9
"""The share of its time after which an end may be for want of it: the kubelet asks for the first time at once."""


def look_for_end(pod: PodView, ended: Ended, inputs: Inputs) -> EventsOf | None:
    """What tells whether its kubelet ended it; None where it had time left, or is not the engine."""
    allowed = deployment_view(inputs.engines).startup
    if {pod.component, ended.log.container} != {ENGINE} or ended.ran is None or ended.ran < _ALL * allowed:
        return None
    return EventsOf(ended.log.namespace, pod.name, pod.uid)


def too_slow(pod: PodView, ended: Ended, inputs: Inputs) -> str:
    """That it did not answer in time, how far it had come and what to do; empty where something else ended it."""
    look = look_for_end(pod, ended, inputs)
    told = inputs.seen.get(look) if look else None
    if not isinstance(told, Told) or not any(event.message.startswith(_END) for event in told.events):
        return ""
    log = inputs.seen.get(ended.log)
    phase = chosen_engine().phase(log.text) if isinstance(log, Log) else None
    where = f"; its log ends where it {WORDS[phase]}" if phase else ""
    allowed = in_words(deployment_view(inputs.engines).startup)
    return (
        f"container `{ENGINE}` did not answer within {allowed}, so it was ended and starts anew{where}."
        " Raise `spec.startupTimeout`, or serve the model from a claim or an image."
    )
