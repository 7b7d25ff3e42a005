"""The whole pure path on one screen: from what was asked and seen to what is wanted.

The recipe and the command line both call `outcome`, and nobody else composes rooms: what is planned is what is done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, TypeVar

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource
from inference_operator.api.spec import Device, Spec
from inference_operator.engines.chosen import chosen_engine
from inference_operator.engines.engine import Engine, Served
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, Manifest, Ref
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import ModelSource, model_source
from inference_operator.observed.deployment import deployment_view
from inference_operator.observed.look import Look, Seen
from inference_operator.observed.node import NodeView
from inference_operator.observed.pod import PodView, template_of
from inference_operator.observed.raw import annotations
from inference_operator.observed.rollout import Rollout
from inference_operator.observed.samples import Samples
from inference_operator.planning.capacity import capped, fixed_replicas
from inference_operator.planning.gpu_offers import gpu_offers
from inference_operator.planning.image import older_image, wanted_image
from inference_operator.planning.known_model import KnownModel, inspected_model, known_model
from inference_operator.planning.patience import patience
from inference_operator.planning.sizes import Question, asked_of_sizes, engine_plan
from inference_operator.resources.additions import refusal_of_additions
from inference_operator.resources.child import fingerprint
from inference_operator.resources.children import children
from inference_operator.resources.compute import refusal_of_resources
from inference_operator.resources.engine_deployment import ENGINE_PORT, engine_deployment, engine_template
from inference_operator.resources.engine_volumes import engine_mounts
from inference_operator.resources.inspection import Inspecting, ModelFiles, inspecting, without_jobs
from inference_operator.resources.model_volume import model_argument
from inference_operator.resources.names import ENGINE, engine_name, router_name
from inference_operator.resources.pinned import PLAN_ANNOTATION, Pinned, mirrored, pinned
from inference_operator.resources.router_config import live_slots
from inference_operator.resources.scheduling import scheduling
from inference_operator.resources.standing import Standing, made_for, older_template, standing_template
from inference_operator.rollout.strategy import Moving, Undecided, rollout, switch_due
from inference_operator.rollout.watchdog import Removal, stalled_engines
from inference_operator.router.haproxy import slots
from inference_operator.settings import Capacity, Settings


@dataclass(frozen=True, slots=True)
class Previous:
    """What decisions need from the past; all of it is kept in children and status, so nothing is remembered here."""

    decisions: Sequence[Pinned]
    """What was decided, as status and the engine Deployment tell; they differ if one of them was not written.
    The latest comes first."""
    slots: int
    """Server slots of the routers' live configuration; 0 where there is none."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a decision needs, as it was last seen."""

    resource: Resource
    children: Mapping[Ref, Manifest]
    pods: Sequence[PodView]
    settings: Settings
    now: datetime
    seen: Seen = field(default_factory=dict)
    """What has been looked up of what the rounds before wanted."""
    samples: Samples = field(default_factory=Samples)
    """What the pods' metrics told last."""
    nodes: Sequence[NodeView] | None = None
    """The nodes with GPUs; None where this operator cannot see nodes."""

    def child(self, ref: Ref) -> Manifest | None:
        """A live child of the resource."""
        return self.children.get(ref)

    @property
    def engines(self) -> Manifest | None:
        """The live Deployment of the engines."""
        key = self.resource.key
        return self.child(Ref(DEPLOYMENT, key.namespace, engine_name(key.name)))

    @property
    def engine_pods(self) -> Sequence[PodView]:
        """The pods of the engines."""
        return [pod for pod in self.pods if pod.component == ENGINE]

    @property
    def previous(self) -> Previous:
        """What was decided before. Status goes first: an annotation that a hand has edited is drift, no decision."""
        key = self.resource.key
        config = self.child(Ref(CONFIG_MAP, key.namespace, router_name(key.name)))
        told = (mirrored(self.resource.status), pinned(annotations(self.engines).get(PLAN_ANNOTATION)))
        decisions = sorted((one for one in told if one is not None), key=lambda one: -one.plan.decision)
        return Previous(decisions, live_slots(config))


@dataclass(frozen=True, slots=True)
class Planned:
    """What is wanted, and the decisions behind it."""

    pinned: Pinned
    desired: Mapping[Ref, Manifest]
    notice: str = ""
    """What a user should know about the decisions; empty if nothing."""
    looks: tuple[Look, ...] = ()
    """What has to be looked up before more can be decided."""
    rollout: Rollout | None = None
    """How engines are replaced; None while that is undecided."""
    until: datetime | None = None
    """When that is to be decided again, if nothing happens before."""
    removals: tuple[Removal, ...] = ()
    """Pods that are to be replaced."""
    model: KnownModel | None = None
    """What is known of the model."""
    awaited: str = ""
    """The kind of GPU that no node has yet which is there; empty if one has, or engines have a node."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing is changed; what runs goes on running."""

    refusal: Refusal
    desired: Mapping[Ref, Manifest]
    model: KnownModel | None = None
    """What is known of the model."""
    looks: tuple[Look, ...] = ()
    """What has to be looked up before it can be decided whether the refusal still holds."""
    until: datetime | None = None
    """When that is to be decided again, if nothing happens before."""
    removals: tuple[Removal, ...] = ()
    """Pods that are to be replaced: what runs must go on running."""


@dataclass(frozen=True, slots=True)
class NeedsInspection:
    """Nothing can be decided before the model is known; what runs goes on running."""

    told: str
    """What goes on, in a sentence or two."""
    desired: Mapping[Ref, Manifest]
    model: KnownModel | None = None
    looks: tuple[Look, ...] = ()
    until: datetime | None = None
    removals: tuple[Removal, ...] = ()
    """Pods that are to be replaced: what runs must go on running."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing is to be changed, because the user says so."""

    desired: Mapping[Ref, Manifest]
    model: KnownModel | None = None
    """What is known of the model."""
    looks: tuple[Look, ...] = ()
    removals: tuple[Removal, ...] = ()
    """Never any: whoever pauses may want to look at an engine that stands still."""


Outcome: TypeAlias = Planned | Refused | NeedsInspection | Paused


def outcome(inputs: Inputs) -> Outcome:
    """Decide what an InferenceDeployment's children should be, and which of its pods has to be replaced."""
    decided = _decided(inputs)
    return decided if isinstance(decided, Paused) else replace(decided, removals=_removals(inputs))


def _decided(inputs: Inputs) -> Outcome:
    spec, settings = inputs.resource.spec, inputs.settings
    if isinstance(spec, Refusal):
        return Refused(spec, inputs.children)
    source, engine = model_source(spec.model.source), chosen_engine()
    if isinstance(source, Refusal):
        return Paused(inputs.children) if spec.paused else Refused(source, inputs.children)
    latest, access = _latest(inputs, spec, engine), engine.access(spec.engine)
    standing = None if _homeless(inputs) else latest
    files = ModelFiles(spec, source, access, inputs.resource.owner, settings)
    looked = _inspecting(inputs, files, wanted=standing is None or not standing.plan.unchecked)
    found = looked.progress.found
    model = inspected_model(found) if found else known_model(source, access.revision)
    if spec.paused:
        return Paused(inputs.children, model)
    image = standing.image if standing else wanted_image(spec, settings)
    checked = engine.check(spec.engine, image=image, settings=settings) or refusal_of_resources(spec.engine.resources)
    if refusal := checked or refusal_of_additions(spec.pod_template, engine_mounts(source, access.writable)):
        return Refused(refusal, inputs.children, model)
    if standing:
        return _beside(inputs, looked, replace(_planned(inputs, spec, standing, source), model=model))
    if looked.going_on:
        return _beside(inputs, looked, NeedsInspection(looked.told, inputs.children))
    offers = gpu_offers(inputs.nodes, scheduling(spec.scheduling, gpus=1, selector={}), spec.hardware.gpu, settings)
    question = Question(spec, source, model, looked.progress.failure, offers, image)
    decided = _sized(inputs, question, latest, engine)
    if isinstance(decided, Refusal):
        return _beside(inputs, looked, Refused(decided, inputs.children, model))
    planned = replace(_planned(inputs, spec, decided, source), model=model, awaited=offers.awaited(decided.plan.gpu))
    return _beside(inputs, looked, planned)


def _inspecting(inputs: Inputs, files: ModelFiles, *, wanted: bool) -> Inspecting:
    """What a model needs to become known; nothing where sizes do not depend on it."""
    known = known_model(files.source, files.access.revision)
    if files.spec.hardware.device is Device.CPU or (known and isinstance(known.facts, ModelFacts)):
        return Inspecting()
    return inspecting(files, inputs.children, inputs.pods, inputs.now, inputs.seen, wanted=wanted)


Decided = TypeVar("Decided", Planned, Refused, NeedsInspection)


def _beside(inputs: Inputs, looked: Inspecting, decided: Decided) -> Decided:
    """The same, with what the inspection needs; of its Jobs only those that it still needs."""
    desired = {**without_jobs(decided.desired), **looked.desired}
    due = [moment for moment in (decided.until, looked.until(inputs.now)) if moment]
    return replace(decided, desired=desired, looks=(*decided.looks, *looked.looks), until=min(due, default=None))


def _planned(inputs: Inputs, spec: Spec, decided: Pinned, source: ModelSource) -> Planned:
    owner, settings = inputs.resource.owner, inputs.settings
    served = Served(model_argument(source), spec.model.served_name or owner.key.name)
    waited = patience(spec, decided.plan, settings)
    process = chosen_engine().process(spec.engine, decided.plan, served, waited, port=ENGINE_PORT)
    room = slots(spec.replicas, inputs.previous.slots)
    made = engine_template(spec, decided, source, process, owner=owner, settings=settings)
    stands = standing_template(Standing(made_for(spec, decided), made), inputs.engines, inputs.engine_pods)
    moving = _moving(inputs, spec, stands.template, gpu=decided.plan.resource)
    rolled = rollout(moving, inputs.seen, visible=not settings.namespaces, now=inputs.now)
    pod, replicas = stands.template["spec"], spec.replicas
    if settings.capacity is Capacity.FIXED:
        replicas = fixed_replicas(replicas, inputs.nodes, inputs.engine_pods, pod, plan=decided.plan)
    older = (older_image(decided.image, spec, settings), older_template(stands.template, made))
    notice = " ".join(filter(None, (*older, capped(spec.replicas, replicas))))
    if isinstance(rolled, Undecided):
        desired = children(spec, rolled.live, process, slots=room, owner=owner, settings=settings)
        return Planned(decided, desired, notice, looks=(rolled.look,))
    engines = engine_deployment(spec, decided, stands, rolled, process, replicas=replicas, owner=owner)
    desired = children(spec, engines, process, slots=room, owner=owner, settings=settings)
    return Planned(decided, desired, notice, rollout=rolled, until=switch_due(moving))


def _sized(inputs: Inputs, question: Question, latest: Pinned | None, engine: Engine) -> Pinned | Refusal:
    """Decide anew; the kind of GPU that engines have is kept where it can be, and so is what nothing better is for."""
    kind = "" if latest else next((one.plan.gpu for one in inputs.previous.decisions), "")
    sizes = engine_plan(replace(question, previous_kind=kind), engine)
    if isinstance(sizes, Refusal):
        return latest or sizes
    decided = Pinned(_asked(question.spec, engine), question.image, sizes)
    if latest is None:
        return decided
    again = replace(decided, plan=replace(sizes, decision=latest.plan.decision))
    return latest if again == latest else replace(decided, plan=replace(sizes, decision=latest.plan.decision + 1))


def _moving(inputs: Inputs, spec: Spec, template: Manifest, *, gpu: str) -> Moving:
    return Moving(
        asked=spec.rollout.strategy,
        template=template_of(template["metadata"]) or "",
        pod=template["spec"],
        live=inputs.engines,
        pods=inputs.engine_pods,
        gpu=gpu,
    )


def _removals(inputs: Inputs) -> tuple[Removal, ...]:
    return stalled_engines(
        inputs.engine_pods,
        inputs.samples,
        wanted=deployment_view(inputs.engines).wanted,
        namespace=inputs.resource.key.namespace,
        stall_seconds=inputs.settings.stall_seconds,
    )


def _asked(spec: Spec, engine: Engine) -> str:
    """Fingerprint of all that the pinned decisions answer; another one means that they are decided again."""
    revision = engine.access(spec.engine).revision
    stated = [revision] if revision else []
    return fingerprint([spec.model.source, spec.engine.image, asked_of_sizes(spec, engine), *stated])


def _latest(inputs: Inputs, spec: Spec, engine: Engine) -> Pinned | None:
    """What was decided last about what is asked now. It stands, unless it is what keeps every engine from a node."""
    asked = _asked(spec, engine)
    return next((one for one in inputs.previous.decisions if one.asked == asked), None)


def _homeless(inputs: Inputs) -> bool:
    engines = inputs.engine_pods
    return bool(engines) and all(pod.problem and pod.problem.reason is Reason.UNSCHEDULABLE for pod in engines)
