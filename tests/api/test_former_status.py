"""Reading a status as commit d036b61 wrote it, with field names that have changed since."""

from inference_operator.api.resource import resource
from inference_operator.api.status import PlanStatus, Status
from inference_operator.manifest import Manifest
from inference_operator.roles.pinned_plan import plan_from_status
from inference_operator.sizing.stored_plan import to_json
from tests.testing.builders import inference_deployment

PER_GPU: Manifest = {
    "memoryGiB": 22.06,
    "offeredGiB": 20.3,
    "weightsGiB": 15.27,
    "activationGiB": 0.61,
    "nonTorchGiB": 0.14,
    "cudaGraphsGiB": 0.31,
    "kvCacheGiB": 3.97,
    "kvCacheTokens": 28912,
    "kvTokenBytes": 147456,
    "headroomGiB": 1.5,
    "longestRequests": 1.8,
    "typicalRequests": 14.1,
    "origins": {"weights": "counted from config.json"},
}
FORMER: Manifest = {
    "observedGeneration": 3,
    "conditions": [
        {
            "type": "Stalled",
            "status": "False",
            "reason": "NotStalled",
            "message": "Nothing stands in the way.",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-11-20T10:00:00Z",
        }
    ],
    "url": "http://qwen.default.svc.cluster.local/v1",
    "replicas": 1,
    "readyReplicas": 1,
    "ready": "1/1",
    "plan": {
        "device": "GPU",
        "tensorParallelSize": 1,
        "pipelineParallelSize": 1,
        "gpusPerReplica": 1,
        "resource": "nvidia.com/gpu",
        "gpu": "L4",
        "maxModelLen": 16384,
        "maxNumSeqs": 256,
        "cpu": "4",
        "memory": "20Gi",
        "ephemeralStorage": "20Gi",
        "sharedMemory": "4Gi",
        "cpuOffloadGiB": 0.0,
        "uncounted": ["the draft model `org/head`"],
        "unchecked": "",
        "perGpu": PER_GPU,
        "asked": "0d96558eb5f0a75f",
    },
    "engine": {
        "image": "docker.io/vllm/vllm-openai:v0.32.0",
        "kvCache": {"estimatedTokens": 28912, "reportedTokens": 28800, "template": "ca6dc0fc7281d0a4"},
    },
}
NOW = {
    "offeredGiB": "requestedGiB",
    "longestRequests": "maxConcurrencyAtFullContext",
    "typicalRequests": "maxConcurrencyAt2048Tokens",
    "uncounted": "unaccounted",
    "unchecked": "uncheckedReason",
    "asked": "specHash",
    "template": "podTemplateHash",
}


def renamed(document: Manifest) -> Manifest:
    """The same status with the names of today."""
    return {
        NOW.get(name, name): renamed(value) if isinstance(value, dict) else value for name, value in document.items()
    }


def test_a_status_with_former_field_names_is_read_into_the_current_fields() -> None:
    former = Status.model_validate(FORMER)
    assert former == Status.model_validate(renamed(FORMER))
    assert former.plan is not None
    assert (former.plan.spec_hash, former.plan.unaccounted) == ("0d96558eb5f0a75f", ("the draft model `org/head`",))
    assert former.plan.per_gpu is not None
    assert former.plan.per_gpu.max_concurrency_at_full_context == 1.8


def test_a_status_with_former_field_names_is_written_with_the_current_names() -> None:
    dumped = Status.model_validate(FORMER).dump()
    assert {name: dumped["plan"][name] for name in ("specHash", "unaccounted")} == {
        "specHash": "0d96558eb5f0a75f",
        "unaccounted": ["the draft model `org/head`"],
    }
    assert {"requestedGiB", "maxConcurrencyAtFullContext", "maxConcurrencyAt2048Tokens"} <= dumped["plan"][
        "perGpu"
    ].keys()
    assert not NOW.keys() & {*dumped["plan"], *dumped["plan"]["perGpu"], *dumped["engine"]["kvCache"]}


def test_the_plan_of_a_status_with_former_field_names_is_the_pinned_plan() -> None:
    found = plan_from_status(Status.model_validate(FORMER), engine="VLLM")
    assert found is not None
    assert (found.spec_hash, found.image) == ("0d96558eb5f0a75f", "docker.io/vllm/vllm-openai:v0.32.0")
    assert found.plan.uncounted == ("the draft model `org/head`",)
    assert found.plan.per_gpu is not None
    assert (found.plan.per_gpu.offered_gib, found.plan.per_gpu.longest_requests) == (20.3, 1.8)
    assert (
        PlanStatus.model_validate({**to_json(found.plan), "spec_hash": found.spec_hash})
        == Status.model_validate(FORMER).plan
    )


def test_a_status_with_former_field_names_is_read_after_pruning_by_the_new_schema() -> None:
    """The API server drops fields that its CRD does not have when it reads a stored object."""

    def prune(document: Manifest) -> Manifest:
        kept = {name: value for name, value in document.items() if name not in NOW}
        return {name: prune(value) if isinstance(value, dict) else value for name, value in kept.items()}

    status = Status.model_validate(prune(FORMER))
    assert status.observed_generation == 3
    assert status.plan is not None
    assert status.plan.spec_hash == ""
    assert plan_from_status(status, engine="VLLM") is None


def test_a_status_with_former_field_names_keeps_its_conditions() -> None:
    (condition,) = resource({**inference_deployment(), "status": FORMER}).status.conditions
    assert (condition.type, condition.last_transition_time) == ("Stalled", "2026-11-20T10:00:00Z")
