"""The whole pure path on one screen: from what was asked and seen to what is wanted.

The recipe and the command line both call `outcome`, and nobody else composes rooms: what is planned is what is done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource
from inference_operator.api.spec import Device, Spec
from inference_operator.api.status import Status
from inference_operator.engines.chosen import chosen_engine
from inference_operator.engines.engine import Patience, Served
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, Manifest, Ref
from inference_operator.models.source import model_source
from inference_operator.observed.deployment import deployment_view
from inference_operator.observed.look import Look, Seen
from inference_operator.observed.pod import PodView, template_of
from inference_operator.observed.rollout import Rollout
from inference_operator.observed.samples import Samples
from inference_operator.resources.additions import refusal_of_additions
from inference_operator.resources.child import fingerprint
from inference_operator.resources.children import children
from inference_operator.resources.compute import GPU_RESOURCE, refusal_of_resources
from inference_operator.resources.engine_deployment import ENGINE_PORT, engine_deployment, engine_template
from inference_operator.resources.engine_volumes import engine_mounts
from inference_operator.resources.model_volume import model_argument
from inference_operator.resources.names import ENGINE, engine_name, router_name
from inference_operator.resources.pinned import PLAN_ANNOTATION, Pinned, pinned
from inference_operator.resources.router_config import live_slots
from inference_operator.rollout.strategy import Moving, Undecided, rollout, switch_due
from inference_operator.rollout.watchdog import Removal, stalled_engines
from inference_operator.router.haproxy import slots
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan, Wishes, plan
from inference_operator.sizing.startup import startup_seconds


@dataclass(frozen=True, slots=True)
class Previous:
    """What decisions need from the past; all of it is kept in children and status, so nothing is remembered here."""

    decisions: Sequence[Pinned]
    """What was decided, as status and the engine Deployment tell; they differ if one of them was not written."""
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
        annotations = (self.engines or {}).get("metadata", {}).get("annotations") or {}
        config = self.child(Ref(CONFIG_MAP, key.namespace, router_name(key.name)))
        told = (_mirrored(self.resource.status), pinned(annotations.get(PLAN_ANNOTATION)))
        return Previous([one for one in told if one is not None], live_slots(config))


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


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing is changed; what runs goes on running."""

    refusal: Refusal
    desired: Mapping[Ref, Manifest]
    looks: tuple[Look, ...] = ()
    """What has to be looked up before it can be decided whether the refusal still holds."""
    removals: tuple[Removal, ...] = ()
    """Pods that are to be replaced: what runs must go on running."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing is to be changed, because the user says so."""

    desired: Mapping[Ref, Manifest]
    looks: tuple[Look, ...] = ()
    removals: tuple[Removal, ...] = ()
    """Never any: whoever pauses may want to look at an engine that stands still."""


Outcome: TypeAlias = Planned | Refused | Paused


def outcome(inputs: Inputs) -> Outcome:
    """Decide what an InferenceDeployment's children should be, and which of its pods has to be replaced."""
    decided = _decided(inputs)
    return decided if isinstance(decided, Paused) else replace(decided, removals=_removals(inputs))


def _decided(inputs: Inputs) -> Outcome:
    spec, owner, settings = inputs.resource.spec, inputs.resource.owner, inputs.settings
    if isinstance(spec, Refusal):
        return Refused(spec, inputs.children)
    if spec.paused:
        return Paused(inputs.children)
    source = model_source(spec.model.source)
    if isinstance(source, Refusal):
        return Refused(source, inputs.children)
    default = spec.engine.image or _default_image(spec, settings)
    decided = _standing(inputs, spec) or Pinned(_asked(spec), default, plan(_wishes(spec)))
    engine = chosen_engine()
    checked = engine.check(spec.engine, image=decided.image, settings=settings)
    if refusal := checked or refusal_of_resources(spec.engine.resources):
        return Refused(refusal, inputs.children)

    served = Served(model_argument(source), spec.model.served_name or owner.key.name)
    process = engine.process(spec.engine, decided.plan, served, _patience(spec, settings), port=ENGINE_PORT)
    if refusal := refusal_of_additions(spec.pod_template, engine_mounts(source, process)):
        return Refused(refusal, inputs.children)
    room = slots(spec.replicas, inputs.previous.slots)
    template = engine_template(spec, decided, source, process, owner=owner, settings=settings)
    moving = _moving(inputs, spec, template)
    rolled = rollout(moving, inputs.seen, visible=not settings.namespaces, now=inputs.now)
    if isinstance(rolled, Undecided):
        desired = children(spec, rolled.live, process, slots=room, owner=owner, settings=settings)
        return Planned(decided, desired, _notice(decided, default), looks=(rolled.look,))
    engines = engine_deployment(spec, decided, template, rolled, process, owner=owner)
    desired = children(spec, engines, process, slots=room, owner=owner, settings=settings)
    return Planned(decided, desired, _notice(decided, default), rollout=rolled, until=switch_due(moving))


def _moving(inputs: Inputs, spec: Spec, template: Manifest) -> Moving:
    return Moving(
        asked=spec.rollout.strategy,
        template=template_of(template["metadata"]) or "",
        pod=template["spec"],
        live=inputs.engines,
        pods=inputs.engine_pods,
        gpu=GPU_RESOURCE,
    )


def _patience(spec: Spec, settings: Settings) -> Patience:
    asked = spec.startup_timeout
    return Patience(
        startup=int(asked.total_seconds()) if asked else startup_seconds(weights_bytes=None),
        staleness=settings.dns_staleness_seconds,
        drain=int(spec.drain_timeout.total_seconds()),
    )


def _removals(inputs: Inputs) -> tuple[Removal, ...]:
    return stalled_engines(
        inputs.engine_pods,
        inputs.samples,
        wanted=deployment_view(inputs.engines).wanted,
        namespace=inputs.resource.key.namespace,
        stall_seconds=inputs.settings.stall_seconds,
    )


def _wishes(spec: Spec) -> Wishes:
    return Wishes(device=spec.hardware.device, tensor_parallel_size=spec.parallelism.tensor)


def _default_image(spec: Spec, settings: Settings) -> str:
    return settings.gpu_engine_image if spec.hardware.device is Device.GPU else settings.cpu_engine_image


def _asked(spec: Spec) -> str:
    """Fingerprint of all that the pinned decisions answer; another one means that they are decided again."""
    wishes = _wishes(spec)
    return fingerprint([spec.model.source, spec.engine.image, wishes.device, wishes.tensor_parallel_size])


def _mirrored(status: Status) -> Pinned | None:
    if status.plan is None or status.engine is None:
        return None
    sizes = status.plan.model_dump(exclude={"asked"})
    return Pinned(status.plan.asked, status.engine.image, Plan(**sizes))


def _standing(inputs: Inputs, spec: Spec) -> Pinned | None:
    """The decisions in force, if they answer what is asked now and are not what keeps every engine from a node."""
    previous = next((one for one in inputs.previous.decisions if one.asked == _asked(spec)), None)
    engines = inputs.engine_pods
    homeless = all(pod.problem and pod.problem.reason is Reason.UNSCHEDULABLE for pod in engines)
    return None if engines and homeless else previous


def _notice(decided: Pinned, default: str) -> str:
    if decided.image == default:
        return ""
    return (
        f"The engine stays on `{decided.image}`; this operator's default is `{default}`:"
        " set `spec.engine.image` to it to move, which restarts the engines one by one."
    )
