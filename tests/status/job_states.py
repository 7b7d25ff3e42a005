"""States while the pod of a Job does not run, such as one whose Secret is missing, and after that lasted too long."""

from dataclasses import replace
from datetime import timedelta

from inference_operator.jobs.result import Cause
from inference_operator.manifest import JOB, Manifest, Ref
from inference_operator.objects.names import ADAPTER, DOWNLOAD, INSPECTION, VERIFICATION
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.pod import pod_view
from tests.status.sizing_states import Settled
from tests.testing.adapters import adapted
from tests.testing.builders import NOW, inference_deployment, inputs, model_known, waiting
from tests.testing.inspected import failing, job_of, over
from tests.testing.verified import asked_for, with_key

TOKEN = {"tokenSecretRef": {"name": "hf-token"}}
NO_TOKEN = waiting("CreateContainerConfigError", 'secret "hf-token" not found')
CREATE_TOKEN = "Create it: `kubectl create secret generic -n default hf-token --from-literal=token=…`."  # noqa: S105 - a message
MINUTES_WITHOUT_WORKLOAD = 10
"""The progress deadline while there is no workload."""


def gated() -> Inputs:
    """An InferenceDeployment of a gated model, seen for the first time."""
    return inputs(inference_deployment(model={"source": "hf://org/gated", **TOKEN}))


def not_running(begun: Inputs, component: str, status: Manifest, *, minutes: int = 0) -> Inputs:
    """The same once its Job and the pod of that exist; `minutes` is how long ago that began."""
    job = next(one for ref, one in outcome(begun).desired.items() if ref.kind == JOB)
    created = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = {**job["metadata"], "creationTimestamp": created}
    own = [{**one, "name": component} for one in status["containerStatuses"]]
    pod = {
        "metadata": {"name": f"{meta['name']}-x", "namespace": "default", "creationTimestamp": created},
        "spec": job["spec"]["template"]["spec"],
        "status": {**status, "containerStatuses": own},
    }
    children = {**begun.children, Ref.of(job): {**job, "metadata": meta}}
    return replace(begun, children=children, pods=(pod_view(pod, component=component),))


def _downloading(**model: object) -> Inputs:
    raw = inference_deployment(cache={"claimName": "models"})
    raw = {**raw, "spec": {**raw["spec"], "model": {**raw["spec"]["model"], **model}}}
    return inputs(raw, children=[model_known(raw)])


def _adapting() -> Inputs:
    return inputs(adapted("two", two=TOKEN))


def _overdue(begun: Inputs, component: str) -> Inputs:
    """The same once the Job has ended because its pod never ran, whose container still waits."""
    seen = not_running(begun, component, NO_TOKEN)
    job = job_of(seen.children)
    return replace(seen, children={**seen.children, Ref.of(job): {**job, "status": over()}})


INSPECTING = not_running(gated(), INSPECTION, NO_TOKEN)
DOWNLOADING = not_running(_downloading(**TOKEN), DOWNLOAD, NO_TOKEN)
ADAPTING = not_running(_adapting(), ADAPTER, NO_TOKEN)
NO_VERIFIER = waiting("ImagePullBackOff", "dial tcp: lookup ghcr.io on 10.96.0.10:53: i/o timeout")
VERIFYING = not_running(with_key(asked_for()), VERIFICATION, NO_VERIFIER)
OVERDUE_INSPECTION = _overdue(gated(), INSPECTION)
SILENT_HUB = failing(Cause.UNREACHABLE, model={"source": "hf://org/model"}, hardware={"device": "CPU"})
SILENT_HUB_AND_CACHE = failing(
    Cause.UNREACHABLE, model={"source": "hf://org/model"}, hardware={"device": "CPU"}, cache={}
)
_NO_SECRET = ("False ContainerConfigError", "True ContainerConfigError", "False NotStalled")

JOB_STATES: dict[str, Settled] = {
    "the Secret of the token is missing for the inspection": (INSPECTING, [], _NO_SECRET),
    "the Secret of the token is missing for the download": (DOWNLOADING, [], _NO_SECRET),
    "the Secret of the token is missing for the download, for too long": (
        not_running(_downloading(**TOKEN), DOWNLOAD, NO_TOKEN, minutes=MINUTES_WITHOUT_WORKLOAD),
        [],
        ("False ContainerConfigError", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "the Secret of the token is missing for the first adapter": (ADAPTING, [], _NO_SECRET),
    "nodes do not reach the registry of the verifier": (
        VERIFYING,
        [],
        ("False ImagePullFailed", "True ImagePullFailed", "False NotStalled"),
    ),
    "the Secret of the token was missing until the inspection's Job ended": (
        OVERDUE_INSPECTION,
        [],
        ("False ContainerConfigError", "False Settled", "True ContainerConfigError"),
    ),
    "the hub is silent, on CPUs": (SILENT_HUB, [], ("False Starting", "True Starting", "False NotStalled")),
    "the hub is silent, on CPUs with a claim of unknown size": (
        SILENT_HUB_AND_CACHE,
        [],
        ("False HubUnreachable", "False Settled", "True HubUnreachable"),
    ),
}
