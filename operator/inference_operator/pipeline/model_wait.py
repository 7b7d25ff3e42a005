"""Engines that wait for their model: until it is on its claim, or until its signature is verified."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import ModelWait, Planned, Refused
from inference_operator.pipeline.role import Role
from inference_operator.views.lookups import Lookup
from inference_operator.views.pod import has_answered
from inference_operator.views.workload import workload_view
from inference_operator.workload.deployment import scaled_deployment


class ModelTask(Protocol):
    """What has to be done once before engines can load a model."""

    @property
    def complete(self) -> bool:
        """Whether it is done."""

    @property
    def refusal(self) -> Refusal | None:
        """Why it failed; None if it did not."""

    @property
    def message(self) -> str:
        """Progress in one or two sentences; empty once it is done."""

    @property
    def desired(self) -> Mapping[Ref, Manifest]:
        """The objects that it needs."""

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """Lookups that tell more about it."""

    def recheck_at(self, now: datetime) -> datetime | None:
        """When its state changes without an event."""


def after_task(
    inputs: Inputs, planned: Planned, task: ModelTask, reason: Reason, *, kept: Mapping[Ref, Manifest]
) -> Planned | Refused:
    """The outcome with the objects of the task; until it is done, workloads have other numbers of engines at most.

    Args:
        inputs: what was observed.
        planned: the outcome without the task.
        task: the task.
        reason: why engines wait.
        kept: the objects that stay if the task has failed, beside its own.
    """
    lookups = (*planned.lookups, *task.lookups)
    times = [moment for moment in (planned.recheck_at, task.recheck_at(inputs.now)) if moment]
    recheck_at = min(times, default=None)
    if task.refusal:
        return Refused(
            desired={**kept, **task.desired, **_serving(inputs, planned)},
            refusal=task.refusal,
            model=planned.model,
            scaling=planned.scaling,
            target=planned.target,
            deletion_costs=planned.deletion_costs,
            lookups=lookups,
            recheck_at=recheck_at,
        )
    desired = planned.desired if task.complete else _without_new_engines(inputs, planned)
    return replace(
        planned,
        desired={**task.desired, **desired},
        model_wait=_wait(inputs, planned, reason, task.message),
        lookups=lookups,
        recheck_at=recheck_at,
    )


def _wait(inputs: Inputs, planned: Planned, reason: Reason, progress: str) -> ModelWait | None:
    """The progress; and if engines serve, that they stay until the switch."""
    if not progress:
        return None
    if not _serves(inputs, planned.roles[0]):
        return ModelWait(reason, progress)
    return ModelWait(reason, f"{progress} The running engines serve until the switch, which follows.")


def _serves(inputs: Inputs, first: Role) -> bool:
    """Whether an engine is wanted and serves; not while the first ones start, or while all end."""
    ready = workload_view(inputs.workload(first.name)).ready > 0
    return first.replicas > 0 and (ready or any(has_answered(pod) for pod in first.pods))


def _without_new_engines(inputs: Inputs, planned: Planned) -> dict[Ref, Manifest]:
    """The desired objects with the live workloads; without workloads that do not exist yet."""
    workloads = {Ref.of(role.workload) for role in planned.roles}
    others = {ref: one for ref, one in planned.desired.items() if ref not in workloads}
    return {**others, **_serving(inputs, planned)}


def _serving(inputs: Inputs, planned: Planned) -> dict[Ref, Manifest]:
    """The live workloads with as many engines as are wanted: the former model serves and scales until the switch."""
    workloads = {Ref.of(role.workload): role.workload["spec"]["replicas"] for role in planned.roles}
    return {
        ref: scaled_deployment(live, replicas, inputs.owner)
        for ref, replicas in workloads.items()
        if (live := inputs.child(ref)) is not None
    }
