import pytest

from inference_operator.diagnosis.unschedulable import CURE, scheduler_sentence

PREEMPTION = " preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
TAINTED = "1 node(s) had untolerated taint {dedicated: team-a, x}"
UNMATCHED = "1 node(s) didn't match Pod's node affinity/selector"
UNMATCHED_SENTENCE = "1 has labels that do not match the node selector or affinity"
TAINT_SENTENCE = "1 has a taint that is not tolerated (dedicated: team-a, x)"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            f"it fits none of 3 nodes: 3 have too little free `nvidia.com/gpu`. {CURE}.",
        ),
        (
            f"0/2 nodes are available: {TAINTED}, {UNMATCHED}.{PREEMPTION}",
            f"it fits none of 2 nodes: {TAINT_SENTENCE}, {UNMATCHED_SENTENCE}. {CURE}.",
        ),
        (
            f"0/2 nodes are available: 2 something new.{PREEMPTION}",
            f"it fits none of 2 nodes: 2 something new. {CURE}.",
        ),
        (
            f"0/4 nodes are available: 4 Insufficient nvidia.com/gpu. no new claims to deallocate,{PREEMPTION}",
            f"it fits none of 4 nodes: 4 have too little free `nvidia.com/gpu`. {CURE}.",
        ),
        ("no nodes available to schedule pods", f"the cluster has no nodes. {CURE}."),
        ("waiting for a gate", "waiting for a gate"),
        ("", ""),
    ],
)
def test_known_scheduler_messages_become_a_sentence_and_unknown_messages_stay_unchanged(
    message: str, sentence: str
) -> None:
    assert scheduler_sentence(message) == sentence
