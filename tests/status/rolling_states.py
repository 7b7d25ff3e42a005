"""The states in which engines are being replaced."""

from collections.abc import Sequence

from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from tests.status.situations import MINUTES, NO_IMAGE, OVERDUE, SWITCHED_TO_REPLACE, seen, view
from tests.testing.builders import deployment_status

ROLLING_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    "rolling, old pods serving": (
        seen(engines=deployment_status(2, updated=1, ready=1), routers=deployment_status(2)),
        [],
        ("True Serving", "True RollingOut", "False NotStalled"),
    ),
    "rolling, the controller has not looked yet": (
        seen(engines=deployment_status(1, seen=0), routers=deployment_status(2)),
        [],
        ("True Serving", "True RollingOut", "False NotStalled"),
    ),
    "rolling, the new pod has a problem": (
        seen(
            engines=deployment_status(2, updated=1, ready=1),
            routers=deployment_status(2),
            pods=[view(NO_IMAGE)],
        ),
        [],
        ("True Serving", "True ImagePullFailed", "False NotStalled"),
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
    "rolling, making room": (SWITCHED_TO_REPLACE, [], ("True Serving", "True SwitchedToReplace", "False NotStalled")),
}
