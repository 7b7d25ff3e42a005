"""Jobs, pods and ConfigMaps of a model inspection in its phases."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from inference_operator.jobs.inspection_result import InspectionResult, result_text
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import JOB, Manifest, Ref
from inference_operator.models.config import NotUnderstood
from inference_operator.objects.names import INSPECTION, labels
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.pod import PodView, pod_view
from tests.testing.builders import KEY, NOW, inference_deployment, inputs

MINE = "pvc://models/mine"
QWEN3: Manifest = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
"""What the config of Qwen3-8B says that is read."""


def mine(**spec: object) -> Manifest:
    """An InferenceDeployment of a model that no catalogue knows."""
    raw = inference_deployment(source=MINE)
    return {**raw, "spec": {**raw["spec"], **spec}}


def failure(cause: Cause) -> Failure:
    """Why nothing was found."""
    return Failure(cause, NotUnderstood(MINE, "is of no use.", "Use another."))


def job_of(children: Mapping[Ref, Manifest]) -> Manifest:
    """The only Job."""
    (found,) = (one for ref, one in children.items() if ref.kind == JOB)
    return found


def over(kind: str = "Failed", *, at: datetime = NOW) -> Manifest:
    """The status that its controller gives a Job which is over."""
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": at.isoformat()}]}


def pod_of(job: Manifest, said: InspectionResult | None) -> Manifest:
    """The pod of a Job: at work, or over with its last words."""
    found = isinstance(said, Failure)
    state = {"terminated": {"exitCode": int(found), "message": result_text(said)}} if said else {"running": {}}
    phase = ("Failed" if found else "Succeeded") if said else "Running"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job['metadata']['name']}-abcde",
            "namespace": KEY.namespace,
            "labels": labels(KEY.name, INSPECTION),
        },
        "spec": job["spec"]["template"]["spec"],
        "status": {"phase": phase, "containerStatuses": [{"name": INSPECTION, "state": state}]},
    }


def failing(cause: Cause, **spec: object) -> Inputs:
    """What is seen when the first inspection of a model is over and has found nothing."""
    asked = inputs(mine(**spec))
    job = job_of(outcome(asked).desired)
    said: PodView = pod_view(pod_of(job, failure(cause)), component=INSPECTION)
    return replace(asked, children={Ref.of(job): {**job, "status": over()}}, pods=(said,))
