import pytest

from inference_operator.diagnosis.scheduler_message import CURE, scheduler_sentence

PREEMPTION = " preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
TAINTED = "1 node(s) had untolerated taint {dedicated: team-a, x}"
UNMATCHED = "1 node(s) didn't match Pod's node affinity/selector"
TOLD_TAINT = "1 has a taint that is not tolerated (dedicated: team-a, x)"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            f"none of 3 nodes takes it: 3 have too little free `nvidia.com/gpu`. {CURE}.",
        ),
        (
            f"0/2 nodes are available: {TAINTED}, {UNMATCHED}.{PREEMPTION}",
            f"none of 2 nodes takes it: {TOLD_TAINT}, 1 has other labels than are asked for. {CURE}.",
        ),
        (
            f"0/2 nodes are available: 2 something new.{PREEMPTION}",
            f"none of 2 nodes takes it: 2 something new. {CURE}.",
        ),
        (
            f"0/4 nodes are available: 4 Insufficient nvidia.com/gpu. no new claims to deallocate,{PREEMPTION}",
            f"none of 4 nodes takes it: 4 have too little free `nvidia.com/gpu`. {CURE}.",
        ),
        ("no nodes available to schedule pods", f"there is no node at all. {CURE}."),
        ("waiting for a gate", "waiting for a gate"),
        ("", ""),
    ],
)
def test_the_schedulers_words_become_a_sentence(message: str, told: str) -> None:
    assert scheduler_sentence(message) == told
