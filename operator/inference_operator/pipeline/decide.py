"""The pipeline: from everything requested and observed to the desired objects.

The reconciler, `infd plan` and `infd render` all call `outcome`, and nothing else composes the packages below. So
`infd plan` shows exactly the operator's decision. The steps of a decision:

1. The specification and the source of the model must be valid, and the owner's policy must allow them.
2. What is known about the model, from its inspection or from the catalogue, and the engine that is chosen for it.
3. Every engine must accept the specification.
4. The roles, each with its plan: pinned, corrected or sized now; and the routers.
5. What engines wait for: their model is downloaded or verified, and their adapters are copied.
6. The parts of all features, each by a function in a file of its own, and their sum (`pipeline/summed.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inference_operator.admission.administrator_refusals import refusal_of_policy
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.jobs.state import without_jobs
from inference_operator.models.source import model_source
from inference_operator.objects.names import DOWNLOAD, INSPECTION, VERIFICATION
from inference_operator.pipeline.adapters import adapters
from inference_operator.pipeline.budgets import budgets
from inference_operator.pipeline.contexts import (
    live_roles,
    role_contexts,
    role_specs,
    shared_context,
    with_chosen_engines,
)
from inference_operator.pipeline.engine_key import created_key
from inference_operator.pipeline.engines import engines
from inference_operator.pipeline.gang import pod_groups
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import keeps_model
from inference_operator.pipeline.model_download import claim, download
from inference_operator.pipeline.model_inspection import InspectedModel, inspected_model_of, inspection
from inference_operator.pipeline.model_verification import needs_verification, verification
from inference_operator.pipeline.model_wait import ModelStep, job_wait
from inference_operator.pipeline.moves import moves
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.pipeline.part import Feature, Hold, Part
from inference_operator.pipeline.plans import planned
from inference_operator.pipeline.removal_order import removal_order
from inference_operator.pipeline.routers import routers
from inference_operator.pipeline.scaling import scaling
from inference_operator.pipeline.summed import summed
from inference_operator.pipeline.turns import fleet_turn
from inference_operator.pipeline.validation import refusal_of_role
from inference_operator.pipeline.watchdog import removals, traffic
from inference_operator.planning.role_plan import PlanState, plan_state
from inference_operator.roles.context import LiveRole, SharedContext
from inference_operator.roles.spec import RoleSpec


@dataclass(frozen=True, slots=True)
class DecidedParts:
    """A decision before its parts are added."""

    verdict: Outcome
    """Whether the specification is served, without the sum of the parts."""
    parts: Sequence[Part]
    """What each feature contributes, in any order."""

    def with_parts(self, *parts: Part) -> "DecidedParts":
        return replace(self, parts=(*self.parts, *parts))


def outcome(inputs: Inputs) -> Outcome:
    decided = decided_parts(inputs)
    return summed(decided.verdict, decided.parts)


def decided_parts(inputs: Inputs) -> DecidedParts:
    specs = role_specs(inputs)
    live = live_roles(inputs, specs)
    decided, roles = _decided(inputs, specs, live), tuple(live.values())
    verdict = decided.verdict
    decided = decided.with_parts(budgets(inputs, verdict, roles), fleet_turn(inputs, verdict))
    if not isinstance(verdict, Paused):
        decided = decided.with_parts(removals(inputs, roles), traffic(inputs, roles))
    return decided


def _decided(inputs: Inputs, specs: Sequence[RoleSpec], live: Mapping[str, LiveRole]) -> DecidedParts:
    """Steps 1 to 3."""
    spec = inputs.resource.spec
    unchanged = [_live_objects(inputs)]
    if isinstance(spec, Refusal):
        return DecidedParts(Refused(refusal=spec), unchanged)
    source = model_source(spec.model.source)
    if isinstance(source, Refusal):
        return DecidedParts(Paused() if spec.paused else Refused(refusal=source), unchanged)
    contexts = role_contexts(inputs, specs, live, source)
    states = [plan_state(context) for context in contexts]
    model = inspected_model_of(inputs, shared_context(inputs, spec, contexts), states)
    if spec.paused:
        return DecidedParts(Paused(model=model.known), unchanged)
    is_new = all(state.kept is None for state in states)
    if refusal := refusal_of_policy(spec, inputs.settings.policy, inputs.settings.cluster_domain, is_new=is_new):
        return DecidedParts(Refused(refusal=refusal, model=model.known), unchanged)
    chosen = with_chosen_engines(inputs, states, model.findings)
    if isinstance(chosen, Refusal):
        return DecidedParts(Refused(refusal=chosen, model=model.known), unchanged)
    if refusal := next(filter(None, map(refusal_of_role, chosen)), None):
        return DecidedParts(Refused(refusal=refusal, model=model.known), unchanged)
    shared = shared_context(inputs, spec, [state.context for state in chosen])
    return _accepted(inputs, shared, chosen, model).with_parts(inspection(inputs, model))


def _accepted(
    inputs: Inputs, shared: SharedContext, states: Sequence[PlanState], model: InspectedModel
) -> DecidedParts:
    """The decision about a specification that every engine accepts: steps 4 to 6."""
    unchanged = [_live_objects(inputs, INSPECTION)]
    if model.inspection.running and any(state.kept is None for state in states):
        return DecidedParts(NeedsInspection(wait=job_wait(model.inspection, Reason.INSPECTING_MODEL)), unchanged)
    decided = planned(inputs, shared, states, model)
    if isinstance(decided, Refusal):
        return DecidedParts(Refused(refusal=decided, model=model.known), unchanged)
    steps = _model_steps(inputs, decided)
    if isinstance(steps, Refusal):
        return DecidedParts(Refused(refusal=steps, model=model.known), unchanged)
    decided = replace(decided, hold=_hold(steps))
    of_engines = engines(inputs, decided)
    parts = (*(step.part for step in steps), of_engines, *_parts(inputs, decided))
    if refusal := next((step.refusal for step in steps if step.refusal), None):
        return DecidedParts(Refused(refusal=refusal, model=model.known), parts)
    return DecidedParts(decided, (*parts, pod_groups(inputs, decided, of_engines)))


def _model_steps(inputs: Inputs, decided: Planned) -> Sequence[ModelStep] | Refusal:
    """What engines wait for: step 5. Refused if the claim has no size."""
    spec = decided.shared.stated
    verifies, cache = needs_verification(inputs, spec), spec.cache
    steps = [verification(inputs, decided)] if verifies else []
    downloads = keeps_model(spec) and not verifies
    has_slots = bool(spec.engine.adapter_slots)
    if cache is None or any(step.refusal for step in steps):
        return steps
    if downloads or (has_slots and not _hold(steps).holds_others):
        own = claim(inputs, decided, cache)
        if isinstance(own, Refusal):
            return own
        steps.append(ModelStep(own))
    if downloads:
        steps.append(download(inputs, decided, cache))
    if has_slots and not any(step.refusal for step in steps):
        steps.append(adapters(inputs, replace(decided, hold=_hold(steps)), cache))
    return steps


def _hold(steps: Sequence[ModelStep]) -> Hold:
    return max((step.hold for step in steps), default=Hold.NOTHING)


def _parts(inputs: Inputs, decided: Planned) -> Sequence[Part]:
    """The parts of the features that need the plan, but not the objects of others."""
    templates, is_held = [role.template for role in decided.roles], decided.hold.holds_others
    parts = [
        routers(inputs, decided),
        created_key(inputs, templates, decided.router.engine_key, is_held=is_held),
        scaling(inputs, decided),
        moves(decided),
        removal_order(inputs, decided),
    ]
    if not is_held:
        return parts
    of_model = VERIFICATION if needs_verification(inputs, decided.shared.stated) else DOWNLOAD
    return [*parts, _live_objects(inputs, INSPECTION, of_model)]


def _live_objects(inputs: Inputs, *ended: str) -> Part:
    """All live objects but the Jobs of these components, whose own parts say which stay. The results of Jobs stay."""
    kept = inputs.children
    for component in ended:
        kept = without_jobs(kept, component)
    return Part(feature=Feature.LIVE, kept=kept)
