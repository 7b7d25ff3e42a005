"""The Deployment of a role's engines."""

from collections.abc import Mapping

from inference_operator.api.spec import RolloutStrategy, Spec
from inference_operator.engines.process import EngineProcess
from inference_operator.fleet.rollout_slots import TURN_ANNOTATION
from inference_operator.manifest import DEPLOYMENT, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import COMPONENT_LABEL, selector_labels, workload_name
from inference_operator.objects.scheduling import QUEUE_LABEL, queue_labels
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.views.raw import annotations
from inference_operator.workload.change import WorkloadChange
from inference_operator.workload.eviction.hardware_errors import MOVED_ANNOTATION
from inference_operator.workload.eviction.rollout import ROLLOUT_ANNOTATION
from inference_operator.workload.pinned_template import ENGINE_PIN
from inference_operator.workload.pod_spec import WorkloadInputs

PULL_SECONDS = 300
"""Part of the progress deadline for scheduling and for pulling the engine's image: 10 GB at 60 MB/s take 170 s."""

_WRITTEN = ("revisionHistoryLimit", "progressDeadlineSeconds", "strategy", "selector")
KEPT_ANNOTATIONS = (PLAN_ANNOTATION.key, ROLLOUT_ANNOTATION.key, ENGINE_PIN.key, MOVED_ANNOTATION.key)
"""The annotations by which a Deployment's template and its plan are known."""

_ROLLING_UPDATE: Mapping[RolloutStrategy, Manifest] = {
    RolloutStrategy.SURGE: {"maxSurge": 1, "maxUnavailable": 0},
    RolloutStrategy.REPLACE: {"maxSurge": 0, "maxUnavailable": 1},
}


def engine_deployment(inputs: WorkloadInputs, change: WorkloadChange) -> Manifest:
    """The Deployment of the role. The operator alone owns its `replicas`."""
    template, move = change.template, change.move
    replicas = change.replicas + move.temporary
    spec = {
        "replicas": replicas,
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": progress_deadline_seconds(inputs.spec.stated, inputs.process),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _ROLLING_UPDATE[change.strategy]},
        "selector": {"matchLabels": selector_labels(inputs.name, inputs.role)},
        "template": template.content.template,
    }
    return child(
        DEPLOYMENT,
        workload_name(inputs.name, inputs.role),
        owner=inputs.owner,
        component=inputs.role,
        content={"spec": spec},
        annotations={**recorded(inputs, change), **move.annotations(replicas)},
        added_labels=queue_labels(inputs.spec.scheduling),
    )


def recorded(inputs: WorkloadInputs, change: WorkloadChange) -> Mapping[str, str]:
    """The annotations by which a later decision knows this one, whichever kind of workload has them."""
    return {
        **PLAN_ANNOTATION.entry(inputs.plan),
        **ROLLOUT_ANNOTATION.entry(change.rollout),
        **ENGINE_PIN.entry(change.template),
        **change.moved.entry,
        **TURN_ANNOTATION.entry(change.turn),
    }


def scaled_deployment(live: Manifest, replicas: int, owner: Owner) -> Manifest:
    """The live Deployment with another number of engines, as it was written: it serves on while its successor waits."""
    spec, labels, notes = live["spec"], live["metadata"].get("labels") or {}, annotations(live)
    template = ENGINE_PIN.read(live)
    if template is None or spec.get("replicas") == replicas:
        return live
    written = {name: spec[name] for name in _WRITTEN if name in spec}
    return child(
        DEPLOYMENT,
        live["metadata"]["name"],
        owner=owner,
        component=labels[COMPONENT_LABEL],
        content={"spec": {**written, "replicas": replicas, "template": template.content.template}},
        annotations={name: notes[name] for name in KEPT_ANNOTATIONS if name in notes},
        added_labels={name: labels[name] for name in (QUEUE_LABEL,) if name in labels},
    )


def progress_deadline_seconds(spec: Spec, process: EngineProcess) -> int:
    """The longest time that a rollout may make no progress: as requested, or the engine's startup time and a pull."""
    requested = spec.rollout.progress_deadline
    return int(requested.total_seconds()) if requested else process.startup_seconds + PULL_SECONDS
