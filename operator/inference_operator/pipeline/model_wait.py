"""Engines that wait for their model: until it is on its claim, or until signatures are verified."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from inference_operator.admission.administrator_refusals import BEGIN
from inference_operator.admission.administrator_rules import SIGNATURES_KEY
from inference_operator.admission.named_parts import images
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.jobs.result import Result
from inference_operator.jobs.state import JobState, ObservedJobs, without_jobs
from inference_operator.jobs.task import JobInputs
from inference_operator.jobs.verification import (
    PublicKey,
    VerificationInputs,
    all_verified,
    succeeded_jobs,
    verification_state,
)
from inference_operator.manifest import NETWORK_POLICY, SERVICE, Manifest, Owner, Ref
from inference_operator.models.source import ImageModel
from inference_operator.objects.names import COMPONENT_LABEL, VERIFICATION
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import ModelWait, Planned, Refused
from inference_operator.pipeline.role import Role
from inference_operator.roles.context import RoleContext
from inference_operator.views.lookups import ConfigMapLookup
from inference_operator.views.raw import mapping
from inference_operator.workload.workload import scaled_workload


def needs_verification(inputs: Inputs, spec: Spec) -> bool:
    """Whether the user or the policy of the owner requires signatures."""
    return spec.model.verify is not None or bool(inputs.settings.policy.signatures.key)


def with_verification(inputs: Inputs, planned: Planned) -> Planned | Refused:
    """The outcome with the objects of the verifications. Until all have ended, engines stay as they are.

    What the owner requires is like a rule of the policy that refuses: until it is verified nothing else changes either,
    and nothing new is made.
    """
    if not inputs.jobs:
        return planned
    observed, succeeded = observed_jobs(inputs), succeeded_jobs(inputs.children, inputs.owner)
    required = [verification_state(one, observed, succeeded) for one in _required_by_owner(planned)]
    states = [*(verification_state(one, observed, succeeded) for one in _asked_by_user(planned)), *required]
    if not states:
        return planned
    kept, freezes = without_jobs(inputs.children, VERIFICATION), not all(one.complete for one in required)
    decided = replace(planned, desired=kept, engine_key=None) if freezes else planned
    state = all_verified(states, succeeded, inputs.now)
    found = after_task(inputs, decided, state, Reason.VERIFYING_MODEL, kept=kept, scales=False)
    if isinstance(found, Refused) or found.model_wait is None:
        return found
    return replace(found, model_wait=replace(found.model_wait, freezes=freezes))


def _asked_by_user(planned: Planned) -> Iterator[VerificationInputs]:
    """The verification of the model's image with the key that the user names."""
    context = planned.roles[0].context
    verify = context.spec.effective.model.verify
    if verify is None or not isinstance(context.source, ImageModel):
        return
    ref = verify.config_map_ref
    look = ConfigMapLookup(context.owner.key.namespace, ref.name, ref.key)
    key = PublicKey(f"the key `{ref.key}` of the ConfigMap `{ref.name}`", look)
    yield VerificationInputs(job_inputs(context), context.source.reference, "the image", "spec.model.verify", key)


def _required_by_owner(planned: Planned) -> Iterator[VerificationInputs]:
    """The verifications of all images that the user names with the key in the setting `policy`."""
    context = planned.roles[0].context
    required = context.settings.policy.signatures
    if not required.key:
        return
    demand = BEGIN.format(SIGNATURES_KEY, "requires a signature.")
    key = PublicKey("the key of this cluster's policy", required.key, "COSIGN_POLICY_KEY", demand, required.message)
    named = {text: f"spec.{field}" for field, text in images(context.spec.stated)}
    for reference, field in named.items():
        yield VerificationInputs(job_inputs(context), reference, f"the image in `{field}`", field, key)


def job_inputs(context: RoleContext) -> JobInputs:
    """The inputs of all Jobs of a resource: they access the model as the engines of this role do."""
    effective = context.spec.effective
    access = context.engine.access(effective.engine, effective.model)
    return JobInputs(effective, access, context.owner, context.settings)


def observed_jobs(inputs: Inputs) -> ObservedJobs:
    """The resource's Jobs as observed."""
    return ObservedJobs(inputs.children, inputs.pods, inputs.now, inputs.lookups)


def after_task(
    inputs: Inputs,
    planned: Planned,
    task: JobState[Result],
    reason: Reason,
    *,
    kept: Mapping[Ref, Manifest],
    scales: bool = True,
) -> Planned | Refused:
    """The outcome with the objects of the task. Until it is done, only the replicas of live workloads change.

    Args:
        inputs: what was observed.
        planned: the outcome without the task.
        task: how far it is.
        reason: why engines wait.
        kept: the objects that stay if the task has failed, beside its own.
        scales: whether the number of engines may change meanwhile.
    """
    lookups = (*planned.lookups, *task.lookups)
    times = [moment for moment in (planned.recheck_at, task.recheck_at(inputs.now)) if moment]
    recheck_at = min(times, default=None)
    if task.refusal:
        return Refused(
            desired={**kept, **task.desired, **_serving(inputs, planned, scales=scales)},
            refusal=task.refusal,
            model=planned.model,
            scaling=planned.scaling,
            target=planned.target,
            deletion_costs=planned.deletion_costs,
            lookups=lookups,
            recheck_at=recheck_at,
        )
    desired = planned.desired if task.complete else without_new_engines(inputs, planned, scales=scales)
    return replace(
        planned,
        desired={**task.desired, **desired},
        model_wait=_wait(planned, job_wait(task, reason)),
        lookups=lookups,
        recheck_at=recheck_at,
    )


def job_wait(task: JobState[Result], reason: Reason) -> ModelWait:
    """The wait for a task: with the reason why the pod of its Job does not run, else with the one given."""
    pod = task.progress.waiting
    return ModelWait(pod.reason, task.message, pod.since) if pod else ModelWait(reason, task.message)


def _wait(planned: Planned, wait: ModelWait) -> ModelWait | None:
    """The progress; and if engines serve, that they stay until the switch."""
    if not wait.message:
        return None
    if not _serves(planned.roles[0]):
        return wait
    return replace(wait, message=f"{wait.message} The running engines serve until the switch, which follows.")


def _serves(first: Role) -> bool:
    """Whether an engine is wanted and serves; not while the first ones start, or while all end."""
    live = first.context.live
    return first.replicas > 0 and (live.view.ready > 0 or any(engine.has_answered for engine in live.engines))


def without_new_engines(inputs: Inputs, planned: Planned, *, scales: bool = True) -> dict[Ref, Manifest]:
    """The desired objects with the live workloads and their way to them; without workloads that do not exist yet."""
    workloads = {ref for role in planned.roles for ref in role.workload.refs}
    others = {ref: one for ref, one in planned.desired.items() if ref not in workloads}
    return {**others, **_ways(inputs, planned), **_serving(inputs, planned, scales=scales)}


def _ways(inputs: Inputs, planned: Planned) -> dict[Ref, Manifest]:
    """The live Services and NetworkPolicies of live workloads: those of groups would select no pod of a Deployment."""
    serving = {role.context.live.name for role in planned.roles if role.context.live.workloads}
    return {
        ref: one
        for ref, one in inputs.children.items()
        if ref.kind in (SERVICE, NETWORK_POLICY) and mapping(one["metadata"], "labels").get(COMPONENT_LABEL) in serving
    }


def _serving(inputs: Inputs, planned: Planned, *, scales: bool) -> dict[Ref, Manifest]:
    """The live workloads: the former model serves until the switch. It may scale, to as many engines as are wanted."""
    return {Ref.of(one): one for role in planned.roles for one in _workloads(role, inputs.owner, scales=scales)}


def _workloads(role: Role, owner: Owner, *, scales: bool) -> Sequence[Manifest]:
    live = role.context.live.workloads
    return scaled_workload(live, role.workload.replicas, owner) if scales else live
