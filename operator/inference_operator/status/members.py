"""The members of the group whose problem or progress the status reports."""

from collections.abc import Sequence
from datetime import datetime

from inference_operator.diagnosis.diagnoses import Diagnoses
from inference_operator.diagnosis.group_members import GroupMembers, group_members
from inference_operator.diagnosis.startup_progress import REPORT_AFTER
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import LogText, LookupResults


def reported_members(
    engines: Sequence[EngineView], size: int, diagnoses: Diagnoses, *, lookups: LookupResults, now: datetime
) -> GroupMembers | None:
    """The members of one group that is not ready; None if there is none, or if all of them have just been created.

    It is the group of the problem that is reported, else of the start, else the first one. `size` is as planned.
    """
    groups = [engine for engine in engines if engine.leader.group and _is_reported(engine, now)]
    problem, start = diagnoses.problem, diagnoses.startup.status
    first = (problem.pod.name if problem else "", start.pod if start else "")

    def order(group: EngineView) -> tuple[list[bool], str]:
        names = {pod.name for pod in group.pods}
        return [name not in names for name in first], group.leader.group

    for engine in sorted(groups, key=order):
        if members := group_members(engine, size, log=_leader_log(engine, lookups)):
            return members
    return None


def members_due(engines: Sequence[EngineView], now: datetime) -> Sequence[datetime]:
    """Time of the next report about members, if no event comes before."""
    groups = (engine for engine in engines if engine.leader.group and not engine.ready)
    created = (pod.created + REPORT_AFTER for engine in groups for pod in engine.pods if pod.created)
    return sorted(moment for moment in created if moment > now)[:1]


def _is_reported(engine: EngineView, now: datetime) -> bool:
    """Whether some of its pods stay, and one is deleted, has a problem, or is old enough for a report of its start."""
    terminating = [pod.terminating for pod in engine.pods]
    if any(terminating):
        return not all(terminating)
    return any(pod.problem or (pod.created and pod.created + REPORT_AFTER <= now) for pod in engine.pods)


def _leader_log(engine: EngineView, lookups: LookupResults) -> str:
    start = engine.leader.start if engine.leader.index == 0 else None
    log = lookups.get(start.log) if start and start.log else None
    return log.text if isinstance(log, LogText) else ""
