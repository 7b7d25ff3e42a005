"""The Job that downloads a model to a claim, and the progress that its log shows."""

import copy
from dataclasses import replace

import pytest

from inference_operator.manifest import JOB, Manifest
from inference_operator.objects.names import DOWNLOAD
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.views.lookups import LogLookup, LogText
from inference_operator.views.pod import pod_view
from tests.testing.builders import NOW, inference_deployment, inputs, known_claims, model_known
from tests.testing.everything import POD_TEMPLATE, SCHEDULING
from tests.testing.schemas import validate

RAW = inference_deployment(cache={"claimName": "models"})


def decided(raw: Manifest = RAW, **more: object) -> Planned:
    result = outcome(replace(inputs(raw, children=[model_known(raw)]), **more))  # type: ignore[arg-type]
    assert isinstance(result, Planned), result
    return result


def job_of(result: Planned) -> Manifest:
    (job,) = [one for ref, one in result.desired.items() if ref.kind == JOB]
    return job


@pytest.mark.parametrize("more", [{}, {"podTemplate": POD_TEMPLATE, "scheduling": SCHEDULING}])
def test_a_download_job_is_valid_restricted_and_mounts_the_whole_claim(more: Manifest) -> None:
    raw = inference_deployment(cache={"claimName": "models"}, parallelism={"tensor": 1}, **more)
    job = job_of(decided(raw))
    validate(copy.deepcopy(job), "1.36")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert job["spec"]["backoffLimit"] == 0
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["command"] == ["infd", "download", "hf://Qwen/Qwen3-8B"]
    assert {"name": "model-cache", "mountPath": "/cache"} in container["volumeMounts"]
    assert {"name": "model-cache", "persistentVolumeClaim": {"claimName": "models"}} in pod["volumes"]
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_the_job_downloads_the_draft_that_engines_load_and_its_record_is_another() -> None:
    known = {"method": "Auto", "tokens": 2}
    named = {"method": "DraftModel", "model": "hf://Qwen/Qwen3-0.6B", "revision": "v2"}
    plain = job_of(decided())["metadata"]["name"]
    for asked, revision in ((known, []), (named, ["--draft-revision=v2"])):
        raw = inference_deployment(cache={"claimName": "models"}, engine={"speculative": asked, "profile": "Latency"})
        planned = decided(raw)
        (container,) = job_of(planned)["spec"]["template"]["spec"]["containers"]
        words = [word for word in container["args"] if word.startswith("--draft")]
        assert words == ["--draft=hf://Qwen/Qwen3-0.6B", *revision]
        assert job_of(planned)["metadata"]["name"] != plain


def test_the_progress_of_a_download_comes_from_the_log_of_its_pod() -> None:
    job = job_of(decided())
    name = f"{job['metadata']['name']}-x"
    started = {"running": {"startedAt": NOW.isoformat()}}
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": "1", "creationTimestamp": NOW.isoformat()},
        "spec": {"nodeName": "a", "containers": [{"name": DOWNLOAD}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": DOWNLOAD, "state": started, "started": True, "ready": True, "restartCount": 0}
            ],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    pod = pod_view(raw, component=DOWNLOAD)
    children = {**inputs(RAW, children=[model_known(RAW), job]).children}
    first = decided(children=children, pods=(pod,))
    (lookup,) = (one for one in first.lookups if isinstance(one, LogLookup))
    said = LogText("Downloading 40 %, 60.0 of 146.0 GB, 4 min left\nDownloading 43 %, 62.0 of 146.0 GB, 3 min left\n")
    second = decided(children=children, pods=(pod,), lookups={**known_claims(RAW), lookup: said})
    assert second.model_wait
    assert "Downloading 43 %, 62.0 of 146.0 GB, 3 min left." in second.model_wait.message
    assert "40 %" not in second.model_wait.message
    quiet = inputs(RAW).settings.model_copy(update={"read_logs": False})
    looked = decided(children=children, pods=(pod,), settings=quiet).lookups
    assert not [one for one in looked if isinstance(one, LogLookup)]


def test_kernels_are_shared_by_equal_engines_and_by_no_others() -> None:
    def key(**spec: object) -> str:
        raw = inference_deployment(cache={"claimName": "models"})
        args = job_of(decided({**raw, "spec": {**raw["spec"], **spec}}))
        (kernels,) = [
            one for one in args["spec"]["template"]["spec"]["containers"][0]["args"] if one.startswith("--kernels=")
        ]
        return str(kernels)

    assert key() == key(replicas=3)
    others = {key(), key(parallelism={"tensor": 2}), key(engine={"image": "example.com/vllm:v0.32.0"})}
    assert len(others) == 3


def test_engines_with_a_claim_request_no_disk_for_the_model() -> None:
    without = decided(inference_deployment()).plan.plan
    assert decided().plan.plan != without
