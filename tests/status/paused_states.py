"""The states of an InferenceDeployment that its user has paused."""

from collections.abc import Sequence

from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from tests.status.situations import OVERDUE, loading, observed, reported
from tests.testing.builders import deployment_status, inference_deployment, inputs

PAUSED = inference_deployment(paused=True)

PAUSED_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    "paused, serving": (
        observed(PAUSED, engines=deployment_status(1), routers=deployment_status(2)),
        [],
        ("True Paused", "False Paused", "False Paused"),
    ),
    "paused, engines down for ever": (
        observed(PAUSED, engines={**deployment_status(1, ready=0), **OVERDUE}, routers=deployment_status(2)),
        [],
        ("False Paused", "False Paused", "False Paused"),
    ),
    "paused at zero": (
        observed(
            {**PAUSED, "spec": {**PAUSED["spec"], "replicas": 3}},
            live=inference_deployment(replicas=0),
            engines=deployment_status(0),
            routers=deployment_status(2),
        ),
        [],
        ("True Paused", "False Paused", "False Paused"),
    ),
    "paused before anything was made": (
        inputs(PAUSED),
        [],
        ("False Paused", "False Paused", "False Paused"),
    ),
    "paused with what could not be served": (
        observed(
            inference_deployment(paused=True, engine={"args": ["--port=1"]}),
            engines=deployment_status(1),
            routers=deployment_status(2),
        ),
        [],
        ("True Paused", "False Paused", "False Paused"),
    ),
    "paused, and not readable": (
        inputs(inference_deployment(paused=True, replicas="many")),
        [],
        ("False InvalidSpec", "False Settled", "True InvalidSpec"),
    ),
    "had served until the pause, none ready now": (
        loading(
            before=reported(observed(PAUSED, engines=deployment_status(1), routers=deployment_status(2))).status,
            minutes=1,
        ),
        [],
        ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled"),
    ),
}
