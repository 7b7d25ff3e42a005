"""States during a rollout."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.workload import workload_view
from inference_operator.workload.eviction.drain import MOVE_ANNOTATION, MoveRecord
from inference_operator.workload.eviction.rollout import RolloutReason
from tests.status.situations import (
    CURRENT,
    FULL_QUOTA,
    MINUTES,
    NEW_ENGINE,
    NO_IMAGE,
    OLD_ENGINE,
    OVERDUE,
    SWITCHED_TO_REPLACE,
    WAITING_FOR_NODE,
    decided,
    observed,
    view,
)
from tests.testing.builders import ENGINES, NOW, deployment_status, inference_deployment, ready_pod, unschedulable

UNSUITED = unschedulable("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")
EDITED = inference_deployment(engine={"args": ["--seed=8"]})
UNDECIDED = observed(
    EDITED, engines=deployment_status(1), routers=deployment_status(2), pods=[view(ready_pod(), template="earlier")]
)
"""The pod template has been edited, and free GPUs have not been looked up yet."""

_SETTLED = observed(engines=deployment_status(1), routers=deployment_status(2))
_ENGINES = _SETTLED.children[ENGINES]
_TEMPLATE = workload_view(_ENGINES).template
_NOTED = {**_ENGINES["metadata"]["annotations"], **MOVE_ANNOTATION.entry(MoveRecord(NOW + timedelta(minutes=1)))}
MOVING = replace(
    _SETTLED,
    children={**_SETTLED.children, ENGINES: {**_ENGINES, "metadata": {**_ENGINES["metadata"], "annotations": _NOTED}}},
    pods=[replace(view(ready_pod(), template=_TEMPLATE), node="gone")],
    leaving={"gone": DrainingNode("gone", "which is cordoned")},
)
"""The node of the only engine has been cordoned."""

ROLLING_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    "an engine moves away from a cordoned node": (
        MOVING,
        [],
        ("True Serving", "True NodeLeaving", "False NotStalled"),
    ),
    "rolling, old pods serving": (
        decided(
            observed(
                engines=deployment_status(2, updated=1, ready=1),
                routers=deployment_status(2),
                pods=[OLD_ENGINE, NEW_ENGINE],
            ),
            RolloutReason.FREE_SLOT,
        ),
        [],
        ("True Serving", "True RollingOut", "False NotStalled"),
    ),
    "rolling, the controller has not looked yet": (
        decided(
            observed(engines=deployment_status(1, seen=0), routers=deployment_status(2), pods=[OLD_ENGINE]),
            RolloutReason.FREE_SLOT,
        ),
        [],
        ("True Serving", "True RollingOut", "False NotStalled"),
    ),
    "rolling, the new pod has a problem": (
        observed(
            engines=deployment_status(2, updated=1, ready=1),
            routers=deployment_status(2),
            pods=[view(NO_IMAGE)],
        ),
        [],
        ("True Serving", "True ImagePullFailed", "False NotStalled"),
    ),
    "rolling, the new pod has had it too long": (
        observed(
            engines={**deployment_status(2, updated=1, ready=1), **OVERDUE},
            routers=deployment_status(2),
            pods=[view(NO_IMAGE, age=MINUTES)],
        ),
        [],
        ("True Serving", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "rolling, the new pod has had a problem for ten minutes that the end of no engine removes": (
        decided(
            observed(
                engines=deployment_status(2, updated=1, ready=1),
                routers=deployment_status(2),
                pods=[OLD_ENGINE, view(NO_IMAGE, template=CURRENT, age=10)],
            ),
            RolloutReason.FREE_SLOT,
        ),
        [],
        ("True Serving", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "rolling, no node has suited the new pod for as long as one may take to come": (
        decided(
            observed(
                engines=deployment_status(2, updated=1, ready=1),
                routers=deployment_status(2),
                pods=[OLD_ENGINE, view(UNSUITED, template=CURRENT, age=15)],
            ),
            RolloutReason.FREE_SLOT,
        ),
        [],
        ("True Serving", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "rolling, a full quota allows no surge": (
        FULL_QUOTA,
        [],
        ("True Serving", "True QuotaExceeded", "False NotStalled"),
    ),
    "rolling, a full quota has allowed no surge as asked for ten minutes": (
        replace(FULL_QUOTA, now=NOW + timedelta(minutes=10)),
        [],
        ("True Serving", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "edited, free GPUs not known yet": (UNDECIDED, [], ("True Serving", "True RollingOut", "False NotStalled")),
    "edited after a rollout that failed, free GPUs not known yet": (
        observed(
            EDITED,
            engines={**deployment_status(2, updated=1, ready=1), **OVERDUE},
            routers=deployment_status(2),
            pods=[view(ready_pod(), template="earlier"), view(NO_IMAGE, age=MINUTES)],
        ),
        [],
        ("True Serving", "True ImagePullFailed", "False NotStalled"),
    ),
    "rolling, waiting for a node beside the last engine": (
        WAITING_FOR_NODE,
        [],
        ("True Serving", "True WaitingForNode", "False NotStalled"),
    ),
    "rolling, making room": (SWITCHED_TO_REPLACE, [], ("True Serving", "True SwitchedToReplace", "False NotStalled")),
}
