"""States while the model is downloaded to a claim, and after that has failed."""

from dataclasses import replace

from inference_operator.jobs.inspection_result import result_text
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import Ref
from inference_operator.models.config import NotUnderstood
from inference_operator.objects.names import DOWNLOAD
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.settings import Capacity
from inference_operator.views.node import node_view
from inference_operator.views.pod import PodView
from tests.status.sizing_states import Settled
from tests.testing.builders import H100, inference_deployment, inputs, model_known
from tests.testing.inspected import job_of, over


def _downloading() -> Inputs:
    raw = inference_deployment(cache={"claimName": "models"})
    return inputs(raw, children=[model_known(raw)])


def _without_disk() -> Inputs:
    wanted = inputs(inference_deployment())
    small = replace(node_view(H100), allocatable={**node_view(H100).allocatable, "ephemeral-storage": "10Gi"})
    fixed = wanted.settings.model_copy(update={"capacity": Capacity.FIXED})
    return replace(wanted, nodes=[small], settings=fixed)


def _failed(cause: Cause) -> Inputs:
    begun = _downloading()
    desired = outcome(begun).desired
    job = job_of(desired)
    text = result_text(Failure(cause, NotUnderstood("hf://a/b", "is of no use.", "Use another.")))
    name = f"{job['metadata']['name']}-x"
    pod = PodView(name, DOWNLOAD, None, ready=False, terminating=False, failed=True, problem=None)
    ended = {Ref.of(job): {**job, "status": over()}}
    return replace(begun, children={**begun.children, **ended}, pods=(replace(pod, termination_message=text),))


DOWNLOAD_STATES: dict[str, Settled] = {
    "first start, the model is downloaded to a claim": (
        _downloading(),
        [],
        ("False DownloadingModel", "True DownloadingModel", "False NotStalled"),
    ),
    "first start, no node has the disk for the model": (
        _without_disk(),
        [],
        ("False InsufficientDisk", "False Settled", "True InsufficientDisk"),
    ),
    "first start, the claim is full": (
        _failed(Cause.DISK_FULL),
        [],
        ("False DiskFull", "False Settled", "True DiskFull"),
    ),
    "first start, a downloaded file is damaged": (
        _failed(Cause.DAMAGED),
        [],
        ("False DownloadFailed", "False Settled", "True DownloadFailed"),
    ),
}
