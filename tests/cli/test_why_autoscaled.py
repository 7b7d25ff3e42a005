"""What `infd status --why` prints of the number of engines."""

from inference_operator.api.resource import resource
from inference_operator.cli.live_resource import LiveEvent, LiveResource
from inference_operator.cli.status.why import explanation
from inference_operator.manifest import Manifest
from tests.testing.builders import inference_deployment

DECIDED = {
    "desiredReplicas": 3,
    "reason": "88 requests at 32 for each engine",
    "lastScaleTime": "2026-01-02T03:04:05Z",
    "startSeconds": 90,
    "targetConcurrency": 29,
    "targetBound": "time of each output token",
    "targetFactor": 0.909,
}


def explained(status: Manifest, *events: LiveEvent, **autoscaling: object) -> str:
    raw = inference_deployment(autoscaling={"maxReplicas": 4, **autoscaling})
    raw = {**raw, "status": status}
    return "\n".join(explanation(LiveResource(raw, resource(raw), events=events)))


def test_it_prints_the_decision_the_target_with_its_bound_and_the_changes() -> None:
    event = LiveEvent("2026-01-02T03:04:05Z", "ScaledUp", "From 1 to 3 engines: 88 requests at 32 for each engine.")
    text = explained({"autoscaling": DECIDED}, event)
    assert "Wanted: 3, since 2026-01-02T03:04:05Z: 88 requests at 32 for each engine." in text
    assert "Target: 29 requests for each engine (bound by time of each output token; corrected by measured" in text
    assert "latencies, times 0.909)." in text
    assert "A start takes 90 s" in text
    assert "1 -> 3   ###" in text


def test_a_target_without_correction_says_only_its_bound() -> None:
    text = explained({"autoscaling": {**DECIDED, "targetBound": "max_num_seqs", "targetFactor": None}})
    assert "Target: 29 requests for each engine (bound by max_num_seqs)." in text


def test_it_prints_the_lengths_of_the_requests_once_they_are_measured() -> None:
    load = {"promptTokens": 1500, "answerTokens": 200, "cached": 0.25}
    text = explained({"autoscaling": {**DECIDED, "load": load}})
    assert "Requests: 1,500 prompt tokens, of which the prefix cache has 25%, and 200 answer tokens (mean)." in text
    assert "Requests:" not in explained({"autoscaling": DECIDED})
    assert "Guessed" not in text
    guessing = explained({"autoscaling": {**DECIDED, "load": {**load, "accepted": 0.12}}})
    assert "Guessed tokens: the model accepts 12% of them." in guessing


def test_with_a_schedule_it_prints_which_entry_holds() -> None:
    message = "3 engines are wanted: `autoscaling.schedule[0].minReplicas`. `autoscaling.schedule[0]` keeps at least 3."
    condition = {
        "type": "ScalingActive",
        "status": "True",
        "reason": "FollowingDemand",
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    schedule = [{"start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 3}]
    status = {"autoscaling": DECIDED, "conditions": [condition]}
    assert message in explained(status, schedule=schedule)
    assert message not in explained(status)
