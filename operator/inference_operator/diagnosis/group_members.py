"""The members of a group that is not ready: how many have joined, and what each one waits for.

A group is an engine over several nodes. Its members start their engines once all have joined: a member joins when its
container runs and reaches the leader. So until then each one waits for another one, or for what keeps it from running.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.component import ended_first
from inference_operator.diagnosis.startup_progress import PHRASES
from inference_operator.engines.group.ends import absent_members
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView
from inference_operator.views.pod_startup import StartupStage

NO_POD, TERMINATING = "has no pod yet", "is being deleted"
AGAIN = "waits until it is started again"
TO_LEADER = "waits for the leader"
UNREACHED = "runs and does not reach the leader"


@dataclass(frozen=True, slots=True)
class GroupMembers:
    group: str
    """Name of its StatefulSet."""
    joined: int
    """Members that have joined, the leader included."""
    waits: Sequence[str]
    """What each member does or waits for, by its index, as words that follow its name; empty if it has joined a start
    that goes on."""

    @property
    def all_joined(self) -> bool:
        return self.joined == len(self.waits)

    @property
    def sentence(self) -> str:
        """How many have joined, and what each waits for, for users.

        Examples:
            >>> GroupMembers("qwen-engine-0", 1, ["waits for 1 member to join", "waits for a node"]).sentence
            '1 of 2 members of group `qwen-engine-0` have joined: member 0 waits for 1 member to join; member 1 waits \
for a node.'
            >>> GroupMembers("qwen-engine-0", 2, ["", ""]).sentence
            'All 2 members of group `qwen-engine-0` have joined.'
        """
        size = len(self.waits)
        if self.all_joined:
            return f"All {size} members of group `{self.group}` have joined."
        return f"{self.joined} of {size} members of group `{self.group}` have joined: {'; '.join(self._parts)}."

    @property
    def _parts(self) -> Iterator[str]:
        """What members wait for; neighbours that wait for the same stand together."""
        for words, members in groupby(range(len(self.waits)), key=lambda index: self.waits[index]):
            first, *more = members
            between = "to" if len(more) > 1 else "and"
            yield f"each of members {first} {between} {more[-1]} {words}" if more else f"member {first} {words}"


def group_members(engine: EngineView, size: int, *, log: str = "") -> GroupMembers | None:
    """The members of a group of a planned size; None if it is ready, or if engines are planned as one pod.

    The log of the leader's start tells who has joined. Without it members that run count as joined.
    """
    group = engine.leader.group
    if not group or engine.ready or size == 1:
        return None
    pods = {pod.index: pod for pod in engine.pods}
    # An index is a label, which anybody who may label pods can set to any number: none beyond the size counts.
    members = [pods.get(index) for index in range(size)]
    absent, leads = absent_members(log), bool(members[0] and members[0].running)
    running = [member if member and member.running and not member.terminating else None for member in members]
    joined = [leads and member is not None and member.name not in absent for member in running]
    missing = joined.count(False)
    waits = [_waits(member, joins, missing, leads=leads) for member, joins in zip(members, joined, strict=True)]
    return GroupMembers(group, len(members) - missing, waits)


def waits_itself(pod: PodView) -> bool:
    """Whether nothing is known to be wrong with a member: it runs or starts, or has ended because another one did."""
    return pod.problem is None or pod.running or ended_first(pod) is not None


def _waits(pod: PodView | None, joined: bool, missing: int, *, leads: bool) -> str:  # noqa: FBT001 - one call
    if pod is None:
        return NO_POD
    if pod.terminating:
        return TERMINATING
    if joined:
        return f"waits for {missing} member{'s' if missing > 1 else ''} to join" if missing else ""
    if pod.running:
        return UNREACHED if leads else TO_LEADER
    problem = pod.problem
    if problem is None:
        return PHRASES[pod.start.stage] if pod.start else AGAIN
    if problem.reason is Reason.UNSCHEDULABLE:
        return PHRASES[StartupStage.NODE]
    return AGAIN if problem.terminated else f"does not run ({problem.reason})"
