"""`infd run`: the smallest manifest, the same as one would write, errors with field and cure, and how waiting ends."""

import json
from dataclasses import replace

import pytest
import yaml

from inference_operator.cli.main import main
from inference_operator.manifest import Manifest
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.lookups import LogText
from tests.cli.conftest import Infd
from tests.engines.test_root_error import OUTER, QUOTED, VLLM, raised
from tests.status.engine_states import REFUSING, log_of
from tests.status.situations import RAW, SERVING, loading, reported, view
from tests.testing.builders import pod, waiting
from tests.testing.stored_answers import ApiServer, listing

EVERYTHING = ("--gpu=L4, A10G", "--autoscale=0..4", "--token-secret=hub", "--namespace=models")


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments, "--dry-run"])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_without_options_the_manifest_has_seven_lines(capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = dry_run(capsys, "qwen", "Qwen/Qwen3-8B")
    assert status == 0
    lines = [line for line in said.splitlines() if "namespace:" not in line]
    assert lines == [
        "apiVersion: inference-operator.dev/v1alpha1",
        "kind: InferenceDeployment",
        "metadata:",
        "  name: qwen",
        "spec:",
        "  model:",
        "    source: hf://Qwen/Qwen3-8B",
    ]


def test_each_option_is_a_field_of_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    _, said, _ = dry_run(capsys, "qwen", "hf://Qwen/Qwen3-8B", *EVERYTHING)
    made = yaml.safe_load(said)
    assert made["metadata"] == {"name": "qwen", "namespace": "models"}
    assert made["spec"] == {
        "model": {"source": "hf://Qwen/Qwen3-8B", "tokenSecretRef": {"name": "hub"}},
        "hardware": {"gpu": {"products": ["L4", "A10G"]}},
        "autoscaling": {"minReplicas": 0, "maxReplicas": 4},
    }
    assert json.loads(dry_run(capsys, "qwen", "hf://Qwen/Qwen3-8B", *EVERYTHING, "-o", "json")[1]) == made
    keyed = yaml.safe_load(dry_run(capsys, "qwen", "hf://Qwen/Qwen3-8B", "--token-secret=hub/read")[1])
    assert keyed["spec"]["model"]["tokenSecretRef"] == {"name": "hub", "key": "read"}


def test_a_gateway_stands_beside_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    for output in ("yaml", "json"):
        said = dry_run(capsys, "qwen", "Qwen/Qwen3-8B", "--gateway=models", "--namespace=a", "-o", output)[1]
        model, gateway = json.loads(said)["items"] if output == "json" else yaml.safe_load_all(said)
        assert (model["kind"], model["metadata"]["name"]) == ("InferenceDeployment", "qwen")
        assert gateway == {
            "apiVersion": "inference-operator.dev/v1alpha1",
            "kind": "ModelGateway",
            "metadata": {"name": "models", "namespace": "a"},
            "spec": {},
        }


def test_engines_on_cpus_with_a_fixed_number(capsys: pytest.CaptureFixture[str]) -> None:
    made = yaml.safe_load(dry_run(capsys, "qwen", "pvc://models/a", "--cpu", "--replicas=2")[1])
    assert made["spec"] == {"model": {"source": "pvc://models/a"}, "hardware": {"device": "CPU"}, "replicas": 2}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Qwen", "a/b"), "metadata.name: must be a DNS-1035 label"),
        (("qwen", "nothing"), "spec.model.source: "),
        (("qwen", "ftp://a/b"), "spec.model.source: "),
        (("qwen", "a/b", "--autoscale=4"), "--autoscale: write the least and the most engines as MIN..MAX"),
        (("qwen", "a/b", "--autoscale=4..1"), "spec.autoscaling: `minReplicas` must not be above `maxReplicas`"),
        (("qwen", "a/b", "--replicas=-1"), "spec.replicas: "),
        (("qwen", "a/b", "--cpu", "--gpu=L4"), "not allowed with argument"),
    ],
)
def test_a_wrong_choice_is_refused_with_its_field(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    status, printed, complaint = dry_run(capsys, *arguments)
    assert (status, printed) == (2, "")
    assert said in complaint
    assert "Traceback" not in complaint


RESOURCE = "/apis/inference-operator.dev/v1alpha1/namespaces/default/inferencedeployments/qwen"
PODS = "/api/v1/namespaces/default/pods"
RUN = ("run", "qwen", "Qwen/Qwen3-8B", "--namespace=default")
ERROR, FILE, STATEMENT = QUOTED[0]
REFUSED = replace(
    loading(pods=[REFUSING]), lookups={log_of(REFUSING): LogText(raised(ERROR, VLLM + FILE, STATEMENT) + OUTER)}
)
"""An engine that refuses its configuration."""


def ended(times: int, *, name: str = "qwen-engine-a", reason: str = "CrashLoopBackOff") -> Manifest:
    """A pod whose engine ended so often, and waits for its next run."""
    status = waiting(reason, "", last={"terminated": {"exitCode": 1}})
    status["containerStatuses"][0]["restartCount"] = times - 1
    return pod(name=name, status=status)


def runs_again(times: int) -> Manifest:
    """The same pod in its next run."""
    found = ended(times + 1)
    found["status"]["containerStatuses"][0]["state"] = {"running": {}}
    return found


def stored(situation: Inputs) -> bytes:
    return json.dumps({**RAW, "status": reported(situation).status.dump()}).encode()


@pytest.fixture
def cluster(server: dict[str, bytes]) -> dict[str, bytes]:
    """An API server that creates the resource."""
    ApiServer.changeable.add(RESOURCE)
    return server


GATEWAY = "/apis/inference-operator.dev/v1alpha1/namespaces/default/modelgateways/models"


def test_the_gateway_is_created_too(infd: Infd, cluster: dict[str, bytes]) -> None:
    ApiServer.changeable.add(GATEWAY)
    cluster[RESOURCE] = stored(SERVING)
    status, output, _ = infd(*RUN, "--gateway=models")
    assert status == 0
    assert "default/models (ModelGateway): created." in output
    assert "Behind the gateway: infd gateway status --namespace default models" in output


def test_waiting_ends_when_the_engine_has_ended_again_for_a_cause_that_stays(
    infd: Infd, cluster: dict[str, bytes]
) -> None:
    cluster[RESOURCE], cluster[PODS] = stored(REFUSED), listing(ended(2))
    status, output, complaints = infd(*RUN)
    assert status == 1
    words = f"Pod qwen-engine-a does not run: the engine refuses its configuration: {ERROR[:-1]}."
    assert f"default/qwen: ConfigurationRefused: {words}" in output
    assert complaints == (
        "It has ended 2 times, and waiting does not help. Change what the message names: an argument, the parallel"
        " sizes, the model or the image. `infd logs --namespace default --previous qwen` prints the log, the cause"
        " first. The resource stays: change it, or `kubectl delete infd --namespace default qwen`.\n"
    )


NO_LOG = loading(pods=[REFUSING])
AWAY = replace(REFUSED, lookups={log_of(REFUSING): LogText("OSError: We couldn't connect to 'https://huggingface.co'")})
BROKEN = replace(REFUSED, lookups={log_of(REFUSING): LogText("OSError: /a/.cache/vllm/x.so: file too short")})


@pytest.mark.parametrize(
    ("situation", "pods"),
    [
        (REFUSED, [ended(1)]),
        (NO_LOG, [ended(5)]),
        (BROKEN, [ended(5)]),
        (AWAY, [ended(5)]),
        (REFUSED, [runs_again(5)]),
        (REFUSED, [ended(5), {**ended(1, name="qwen-engine-b")}]),
        (REFUSED, []),
        (loading(pods=[view(waiting("ImagePullBackOff", "no"))]), [ended(5, reason="ImagePullBackOff")]),
    ],
    ids=[
        "first end",
        "unknown cause",
        "the operator mends it",
        "it may pass",
        "it runs again",
        "a corrected plan",
        "no pod",
        "no end",
    ],
)
def test_waiting_goes_on_while_it_may_help(
    infd: Infd, cluster: dict[str, bytes], situation: Inputs, pods: list[Manifest]
) -> None:
    newest = [
        {**one, "metadata": {**one["metadata"], "creationTimestamp": f"2026-01-02T03:0{number}:00Z"}}
        for number, one in enumerate(pods)
    ]
    cluster[RESOURCE], cluster[PODS] = stored(situation), listing(*newest)
    status, _, complaints = infd(*RUN, "--timeout=0")
    assert status == 1
    assert complaints.startswith("Not Ready after 0 s.")


def test_who_may_not_list_pods_waits_on(infd: Infd, cluster: dict[str, bytes]) -> None:
    cluster[RESOURCE] = stored(REFUSED)
    ApiServer.forbidden.add(PODS)
    assert infd(*RUN, "--timeout=0")[2].startswith("Not Ready after 0 s.")


def test_a_resource_that_serves_ends_the_wait_with_the_next_commands(infd: Infd, cluster: dict[str, bytes]) -> None:
    cluster[RESOURCE] = stored(SERVING)
    status, output, complaints = infd(*RUN)
    assert (status, complaints) == (0, "")
    assert "infd chat --namespace default qwen Hello" in output
