"""Engines that wait for their model: what a Job of it contributes, and what stays as it is until it has ended."""

from dataclasses import dataclass, replace

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.jobs.attempts import JobWait
from inference_operator.jobs.result import Result
from inference_operator.jobs.state import JobState, ObservedJobs
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Hold, Part
from inference_operator.pipeline.role import Role


@dataclass(frozen=True, slots=True)
class ModelStep:
    """What has to be done with the model's files before engines start."""

    part: Part
    refusal: Refusal | None = None
    """Why it cannot be done, or why it has failed."""
    hold: Hold = Hold.NOTHING


def observed_jobs(inputs: Inputs) -> ObservedJobs:
    return ObservedJobs(inputs.children, inputs.pods, inputs.now, inputs.lookups)


def task_part(inputs: Inputs, planned: Planned, feature: Feature, task: JobState[Result], reason: Reason) -> Part:
    """The part of a task: its objects, its lookups, and why engines wait."""
    return Part(
        feature=feature,
        desired=task.desired,
        lookups=task.lookups,
        due=task.recheck_at(inputs.now),
        model_wait=None if task.refusal else _wait(planned, job_wait(task, reason)),
    )


def job_wait(task: JobState[Result], reason: Reason) -> JobWait:
    """The wait for a task: with the reason why the pod of its Job does not run, else with the one given."""
    pod = task.progress.waiting
    return JobWait(pod.reason, task.message, pod.since) if pod else JobWait(reason, task.message)


def _wait(planned: Planned, wait: JobWait) -> JobWait | None:
    """The progress; and if engines serve, that they stay until the switch."""
    if not wait.message:
        return None
    if not any(map(_serves, planned.roles)):
        return wait
    return replace(wait, message=f"{wait.message} The running engines serve until the switch, which follows.")


def _serves(role: Role) -> bool:
    """Whether an engine is wanted and serves; not while the first ones start, or while all end."""
    live = role.context.live
    return role.change.wanted > 0 and (live.view.ready > 0 or any(engine.has_answered for engine in live.engines))
