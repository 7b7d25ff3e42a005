"""The states in which engines are being replaced."""

from collections.abc import Sequence

from inference_operator.observed.answer import Answer
from inference_operator.pipeline import Inputs
from tests.builders import deployment_status
from tests.status.situations import MAKING_ROOM, MINUTES, NO_IMAGE, OVERDUE, seen, view

ROLLING_STATES: dict[str, tuple[Inputs, Sequence[Answer], tuple[str, str, str]]] = {
    "rolling, old pods serving": (
        seen(engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2)),
        [],
        ("True Serving", "True RollingOut", "False Unobstructed"),
    ),
    "rolling, the controller has not looked yet": (
        seen(engines=deployment_status(1, seen=0), routers=deployment_status(2)),
        [],
        ("True Serving", "True RollingOut", "False Unobstructed"),
    ),
    "rolling, the new pod has a problem": (
        seen(
            engines=deployment_status(2, updated=1, ready=1),
            routers=deployment_status(2),
            pods=[view(NO_IMAGE)],
        ),
        [],
        ("True Serving", "True ImagePullFailed", "False Unobstructed"),
    ),
    "rolling, the new pod has had it too long": (
        seen(
            engines={**deployment_status(2, updated=1, ready=1), **OVERDUE},
            routers=deployment_status(2),
            pods=[view(NO_IMAGE, age=MINUTES)],
        ),
        [],
        ("True Serving", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "rolling, making room": (MAKING_ROOM, [], ("True Serving", "True MakingRoom", "False Unobstructed")),
}
