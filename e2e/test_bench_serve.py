"""`vllm bench serve` of the engine's own image, in a pod of the cluster, as a client of the routers."""

import json
import re
from collections.abc import Iterator

import pytest

from e2e.helpers.served_deployment import Served
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.manifest import Manifest

pytestmark = pytest.mark.full

POD = "bench-serve"
REQUESTS, AT_ONCE = 100, 16
RUN_SECONDS = 600
"""vLLM imports its packages for half a minute on a busy machine; the requests take seconds."""
COUNTED = re.compile(r"^(Successful|Failed) requests: +([0-9]+)", re.MULTILINE)


@pytest.fixture
def client(tiny: Served) -> Iterator[str]:
    """The name of a pod that runs the bench, with the image and the model of the engine."""
    engine = min(tiny.pods("engine"))
    live: Manifest = json.loads(tiny.kubectl("get", "pod", engine, "--output=json"))
    tiny.kubectl("apply", "--filename=-", input=json.dumps(_pod(live["spec"], tiny)))
    yield POD
    tiny.kubectl("delete", "pod", POD, "--grace-period=1")


def _pod(engine: Manifest, served: Served) -> Manifest:
    (container,) = engine["containers"]
    model = next(mount for mount in container["volumeMounts"] if mount["mountPath"] == "/models")
    url = f"http://{served.name}.{served.namespace}.svc.cluster.local"
    lengths = ("--random-input-len=32", "--random-output-len=16", f"--num-prompts={REQUESTS}")
    names = (f"--base-url={url}", f"--served-model-name={served.name}", "--model=/models", "--tokenizer=/models")
    bench = {
        "name": "bench",
        "image": container["image"],
        "imagePullPolicy": "Never",
        "command": [
            "vllm",
            "bench",
            "serve",
            *names,
            "--dataset-name=random",
            *lengths,
            f"--max-concurrency={AT_ONCE}",
        ],
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "HF_HUB_OFFLINE", "value": "1"}],  # noqa: S108 - of a container
        "volumeMounts": [model],
    }
    volumes = [volume for volume in engine["volumes"] if volume["name"] == model["name"]]
    spec = {"restartPolicy": "Never", "containers": [bench], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}


def test_vllm_bench_serve_gets_an_answer_to_each_request(tiny: Served, client: str, say: Say) -> None:
    phase = ("get", "pod", client, "--output=jsonpath={.status.phase}")
    eventually(lambda: tiny.kubectl(*phase) in ("Succeeded", "Failed"), seconds=RUN_SECONDS, what="the bench ends")
    printed = tiny.kubectl("logs", client)
    counted = {kind: int(number) for kind, number in COUNTED.findall(printed)}
    say(f"vllm bench serve: {counted}")
    assert tiny.kubectl(*phase) == "Succeeded", printed[-2000:]
    assert counted.pop("Failed", 0) == 0, printed[-2000:]
    assert counted == {"Successful": REQUESTS}, printed[-2000:]
