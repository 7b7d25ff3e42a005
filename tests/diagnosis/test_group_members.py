"""The members of a group, as the status shows them."""

from dataclasses import replace

from inference_operator.diagnosis.group_members import group_members
from inference_operator.views.engine import engines_of
from tests.status.situations import starting, view
from tests.testing.engine_groups import grouped

RUNNING = starting(state={"running": {}}, started=False)


def test_a_label_with_a_huge_index_makes_no_members() -> None:
    """Anybody who may create pods may write this label."""
    leader = grouped(view(RUNNING, name="qwen-engine-a"), 2)[0]
    (engine,) = engines_of([leader, replace(leader, name="x", uid="x", index=9_999_999_999)])
    found = group_members(engine, 2)
    assert found
    assert len(found.waits) == 2
    assert found.waits[1] == "has no pod yet"


def test_a_member_that_is_deleted_has_not_joined() -> None:
    leader, worker = grouped(view(RUNNING, name="qwen-engine-a"), 2)
    (engine,) = engines_of([leader, replace(worker, terminating=True)])
    found = group_members(engine, 2)
    assert found
    assert (found.joined, found.waits[1]) == (1, "is being deleted")
