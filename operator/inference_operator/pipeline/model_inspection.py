"""The model of a resource, as far as it is known: from its inspection, or from the catalogue."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.hardware import Device
from inference_operator.jobs.inspection import inspection_task
from inference_operator.jobs.state import JobState, job_state
from inference_operator.models.entry import Entry
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import DOWNLOADED, HubModel, ModelSource, file_of
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_wait import observed_jobs
from inference_operator.pipeline.part import Feature, Part
from inference_operator.planning.engine_plan import ModelFindings
from inference_operator.planning.known_model import KnownModel, fallback_model, inspected_model, known_model
from inference_operator.planning.role_plan import PlanState
from inference_operator.roles.context import RoleContext, SharedContext
from inference_operator.settings import ModelInspection


@dataclass(frozen=True, slots=True)
class InspectedModel:
    findings: ModelFindings
    inspection: JobState[Entry]

    @property
    def known(self) -> KnownModel | None:
        return self.findings.known


def inspected_model_of(inputs: Inputs, shared: SharedContext, states: Sequence[PlanState]) -> InspectedModel:
    inspection = _inspection(inputs, shared, states)
    known = _known_model(shared.source, shared.access.revision, inspection)
    return InspectedModel(ModelFindings(known, inspection.refusal), inspection)


def _inspection(inputs: Inputs, shared: SharedContext, states: Sequence[PlanState]) -> JobState[Entry]:
    """The state of the inspection; empty where nothing needs it.

    That is on CPUs, for a model that has no commit, and engines that read the model's files themselves. Engines that
    send each other KV caches need the commit in any case: it must be one.
    """
    source = shared.source
    sends_caches = any(state.context.spec.transfer for state in states)
    is_catalogue_first = inputs.settings.model_inspection is ModelInspection.WHEN_UNKNOWN and not sends_caches
    catalogued = known_model(source, shared.access.revision) if is_catalogue_first else None
    on_cpus = all(_reads_on_cpus(state.context) for state in states) and not file_of(source)
    if (on_cpus and not isinstance(source, DOWNLOADED)) or (catalogued and isinstance(catalogued.facts, ModelFacts)):
        return JobState()
    wanted = any(_needs_facts(state) for state in states)
    return job_state(inspection_task(shared), observed_jobs(inputs), wanted=wanted)


def _reads_on_cpus(context: RoleContext) -> bool:
    reads = not context.engine.needs_inspection and context.spec.transfer is None
    return context.spec.stated.hardware.device is Device.CPU and reads


def _known_model(source: ModelSource, revision: str | None, inspection: JobState[Entry]) -> KnownModel | None:
    """The model as its own files say, else as the catalogue says, unless its files were refused."""
    entry, failure = inspection.progress.result, inspection.progress.failure
    if entry:
        return inspected_model(entry)
    if failure is None:
        return known_model(source, revision)
    return fallback_model(source, revision, failure.why.problem) if failure.was_unanswered else None


def _needs_facts(state: PlanState) -> bool:
    """Whether a role needs the model's files: to be sized, or to show the facts behind its size.

    A plan of a hub model without a commit was made from the catalogue, or by an operator that stored no commit. It
    needs nothing, so that an update of the operator inspects no model of a running engine.
    """
    if state.kept is None:
        return True
    return not state.kept.plan.unchecked_reason and (
        bool(state.kept.commit) or not isinstance(state.context.source, HubModel)
    )


def inspection(inputs: Inputs, model: InspectedModel) -> Part:
    state = model.inspection
    return Part(
        feature=Feature.INSPECTION, desired=state.desired, lookups=state.lookups, due=state.recheck_at(inputs.now)
    )
