"""Builders of pipeline inputs for typical situations, and of the status that they give."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from inference_operator.api.reasons import ConditionType
from inference_operator.api.spec import RolloutStrategy
from inference_operator.api.status import Status
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.names import ENGINE
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.report import Report, report
from inference_operator.status.write_results import WriteResult
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, PodView, pod_template_hash, pod_view
from inference_operator.views.samples import Samples
from inference_operator.workload.eviction.rollout import ROLLOUT_ANNOTATION, Rollout, RolloutReason
from tests.testing.builders import (
    ENGINES,
    NOW,
    ROUTERS,
    STALLED_ENGINE,
    deployment_status,
    inference_deployment,
    inputs,
    planned,
    pod,
    ready_pod,
    unschedulable,
    waiting,
)

RAW = inference_deployment()
NO_SECRET = waiting("CreateContainerConfigError", 'secret "hugging-face" not found')
NO_IMAGE = waiting("ImagePullBackOff", 'Back-off pulling image "example.com/vllm:nope"')
NO_CLAIM = unschedulable('0/1 nodes are available: persistentvolumeclaim "models" not found.')
OUT_OF_MEMORY = waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 137, "reason": "OOMKilled"}})
CRASHING = waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1, "message": "ValueError: no"}})
OVER_QUOTA = {
    **deployment_status(0, ready=0),
    "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"}],
}
REFUSED_POD = {
    **deployment_status(0, ready=0),
    "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "denied by policy"}],
}
EVICTED: Manifest = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
REJECTED: Manifest = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Pod was rejected: Allocate failed due to no healthy devices present",
}
OVERDUE = {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}
NO_GPU = unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
HALF_AN_HOUR = {"startedAt": "2026-01-02T02:30:00Z", "finishedAt": "2026-01-02T03:00:02Z"}
"""Start and end of a container that ran for its startup timeout of 30 minutes."""
MINUTES = 35
"""The default progress deadline, in minutes."""


def starting(*, minutes: int = 0, **container: object) -> Manifest:
    """The status of a pod that was scheduled this many minutes after `NOW`, and of its container.

    Without a container status the pod waits for its volumes.
    """
    placed = (NOW + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions: list[Manifest] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": placed},
        {"type": "PodReadyToStartContainers", "status": "True" if container else "False"},
    ]
    return {"phase": "Pending", "conditions": conditions, "containerStatuses": [{"name": ENGINE, **container}]}


def view(
    status: Manifest,
    *,
    name: str = "qwen-engine-a",
    component: str = ENGINE,
    age: int = 0,
    template: str | None = None,
) -> PodView:
    """The view of a pod with this status; `age` in minutes."""
    manifest = pod(name=name, component=component, status=status, age=timedelta(minutes=age))
    if template:
        manifest["metadata"]["annotations"] = {TEMPLATE_HASH_ANNOTATION: template}
    return pod_view(manifest, component=component)


def observed(
    raw: Manifest = RAW,
    *,
    live: Manifest = RAW,
    engines: Manifest | None = None,
    routers: Manifest | None = None,
    pods: Iterable[PodView] = (),
    absent: Sequence[Ref] = (),
    before: Status | None = None,
    minutes: int = 0,
) -> Inputs:
    """Inputs with the live children of a resource and the status of its two Deployments.

    Args:
        raw: the resource.
        live: the resource from which the children were built.
        engines: status of the engines' Deployment.
        routers: status of the routers' Deployment.
        pods: the pods.
        absent: children that do not exist.
        before: the previous status of the resource.
        minutes: time since the creation of the resource.
    """
    children = {ref: m for ref, m in planned(live).desired.items() if ref not in absent}
    for ref, status in ((ENGINES, engines), (ROUTERS, routers)):
        if ref in children:
            meta = {**children[ref]["metadata"], "generation": 1}
            children[ref] = {**children[ref], "metadata": meta, "status": status or {}}
    resource = {**raw, "status": before.dump()} if before else raw
    return inputs(resource, children=children.values(), pods=pods, now=NOW + timedelta(minutes=minutes))


def loading(
    *, engines: Manifest | None = None, pods: Iterable[PodView] = (), before: Status | None = None, minutes: int = 0
) -> Inputs:
    """Inputs with ready routers and an engine that is not ready."""
    return observed(
        engines=engines or deployment_status(1, ready=0),
        routers=deployment_status(2),
        pods=pods,
        before=before,
        minutes=minutes,
    )


def reported(situation: Inputs, results: Sequence[WriteResult] = ()) -> Report:
    """The report of a decision with these inputs and write results."""
    return report(situation, outcome(situation), results)


def main_conditions(report_: Report) -> tuple[str, str, str]:
    """Status and reason of Ready, Reconciling and Stalled."""
    ready, reconciling, stalled = (f"{c.status} {c.reason}" for c in report_.status.conditions[:3])
    return ready, reconciling, stalled


def message(report_: Report, kind: ConditionType) -> str:
    condition = report_.status.condition(kind)
    assert condition is not None
    return condition.message


SERVING = observed(engines=deployment_status(1), routers=deployment_status(2))
CURRENT = pod_template_hash(planned(RAW).desired[ENGINES]["spec"]["template"]["metadata"])
SWITCHED_TO_REPLACE = observed(
    engines=deployment_status(2, updated=1, ready=1),
    routers=deployment_status(2),
    pods=[
        view(ready_pod(), name="qwen-engine-old", template="earlier"),
        view(NO_GPU, name="qwen-engine-new", template=CURRENT),
    ],
    minutes=20,
)
"""One engine serves, and the engine that surges beside it is unschedulable."""


def decided(situation: Inputs, why: RolloutReason) -> Inputs:
    """The same with a rollout that surges for this reason, as the Deployment has it."""
    live = situation.children[ENGINES]
    record = ROLLOUT_ANNOTATION.entry(Rollout(CURRENT or "", RolloutStrategy.SURGE, why))
    meta = {**live["metadata"], "annotations": {**live["metadata"]["annotations"], **record}}
    return replace(situation, children={**situation.children, ENGINES: {**live, "metadata": meta}})


OLD_ENGINE = view(ready_pod(), name="qwen-engine-old", template="earlier")
FULL_QUOTA = decided(
    observed(
        inference_deployment(rollout={"strategy": "Surge"}),
        live=inference_deployment(rollout={"strategy": "Surge"}),
        engines={
            **deployment_status(1, updated=0, ready=1),
            "conditions": [
                {
                    "type": "ReplicaFailure",
                    "status": "True",
                    "message": "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
                    "lastTransitionTime": NOW.isoformat(),
                }
            ],
        },
        routers=deployment_status(2),
        pods=[OLD_ENGINE],
    ),
    RolloutReason.ASKED,
)
"""A rollout that surges as asked, and a quota that allows no further pod."""
NEW_ENGINE = view(starting(state={"running": {}}, started=False), name="qwen-engine-new", template=CURRENT, age=1)
WAITING_FOR_NODE = decided(replace(SWITCHED_TO_REPLACE, now=NOW + timedelta(minutes=1)), RolloutReason.NODE_MAY_COME)
"""The same a minute after the edit, on a cluster to which nodes can be added and that has no free GPU."""
_ENGINE = view(ready_pod())
OUT_OF_TRAFFIC = observed(
    engines=deployment_status(1), routers=deployment_status(2), pods=[replace(_ENGINE, traffic=False)]
)
"""Its only engine: what the Deployment's status says and which pods exist may differ for a moment."""
HUNG = replace(SERVING, pods=[_ENGINE], samples=Samples({_ENGINE.uid: STALLED_ENGINE}))
