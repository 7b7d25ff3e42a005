"""Commands of `infd` about resources on a real node: of a service that answers, and of one that ends."""

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import images
from e2e.deploy import stack
from e2e.helpers.engine_contract import applied
from e2e.helpers.infd_command import infd
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.model.tiny_gguf import write_gguf
from e2e.model.tiny_llama import model_folder
from e2e.test_llama_cpp import IMAGE, SMALL, WHOLE

SECONDS = 300
REQUESTS = 5


@pytest.fixture(scope="module")
def folder(cluster: LocalCluster) -> Iterator[str]:
    """A claim with the tiny model, and a file that is none."""
    images.build([IMAGE])
    stack.load(cluster, IMAGE)
    disk = cluster.volumes / "infd"
    disk.mkdir()
    write_gguf(model_folder(), disk / WHOLE)
    with claim_of(cluster, "infd", disk) as claim:
        yield claim


@pytest.fixture(scope="module")
def served(cluster: LocalCluster, folder: str) -> Iterator[Served]:
    with applied(cluster, "shown", model={"source": f"pvc://{folder}/{WHOLE}"}, engine=SMALL) as found:
        stack.wait_ready(cluster, found.name)
        yield found


def test_a_service_that_answers_is_on_one_screen_with_its_traffic(cluster: LocalCluster, served: Served) -> None:
    for _ in range(REQUESTS):
        assert served.complete()
    namespace = f"--namespace={served.namespace}"
    status, said, complaints = infd(cluster, "status", served.name, namespace)
    assert (status, complaints) == (0, "")
    assert said.startswith(f"{served.name}  Ready\n")
    for part in (
        "Engine     LlamaCpp, ",
        "0 run, 0 wait",
        "requests since its routers started",
        f"{served.name}-router-",
    ):
        assert part in said
    status, said, _ = infd(cluster, "status", served.name, namespace, "--output=json")
    found = json.loads(said)
    assert (status, found["ready"], found["noTraffic"], found["traffic"]["perSecond"]) == (0, True, "", None)
    assert found["traffic"]["requests"] >= REQUESTS
    assert re.search(rf"^{served.name} .* True ", infd(cluster, "list", namespace)[1], re.MULTILINE)


def test_a_question_is_answered_through_the_api_server_and_a_router(cluster: LocalCluster, served: Served) -> None:
    namespace = f"--namespace={served.namespace}"
    fixed = (namespace, "--max-tokens=8", "--temperature=0")
    status, said, complaints = infd(cluster, "chat", served.name, "Tell me about otters", *fixed)
    assert (status, bool(said.strip())) == (0, True), complaints
    assert "first token after " in complaints.splitlines()[-1]
    status, _, complaints = infd(cluster, "chat", served.name, "Hi", namespace, "--key-from=nowhere")
    assert (status, "there is no Secret `nowhere`" in complaints) == (3, True)


def test_the_traffic_of_all_services_is_shown_in_numbers(cluster: LocalCluster, served: Served) -> None:
    assert served.complete()
    status, said, complaints = infd(cluster, "list", "--traffic", "-A", "--output=json")
    assert (status, complaints) == (0, "")
    (found,) = (one for one in json.loads(said)["items"] if one["name"] == served.name)
    assert (found["namespace"], found["enginesReady"], found["running"]) == (served.namespace, "1/1", 0)
    assert (found["requestsPerSecond"], found["queued"]) == (0.0, 0)
    _, said, _ = infd(cluster, "list", "--traffic", served.name, f"--namespace={served.namespace}")
    assert said.splitlines()[1].startswith(served.name)


def test_an_edit_is_predicted_held_back_and_then_made(cluster: LocalCluster, served: Served, tmp_path: Path) -> None:
    namespace = f"--namespace={served.namespace}"
    live = json.loads(served.kubectl("get", f"infd/{served.name}", "--output=json"))
    engine = {**live["spec"]["engine"], "env": [{"name": "EDITED", "value": "yes"}]}
    edit = {
        **{field: live[field] for field in ("apiVersion", "kind")},
        "metadata": {"name": served.name, "namespace": served.namespace},
        "spec": {**live["spec"], "engine": engine},
    }
    (tmp_path / "edit.json").write_text(json.dumps(edit))
    status, said, complaints = infd(cluster, "plan", "--diff", f"--filename={tmp_path / 'edit.json'}", "--output=json")
    assert status == 0, complaints
    (predicted,) = json.loads(said)["items"]
    assert (predicted["accepted"], [one["restarts"] for one in predicted["engines"]]) == (True, [1])

    before = set(served.pods("engine"))
    assert infd(cluster, "pause", served.name, namespace)[0] == 0
    served.kubectl(
        "patch", f"infd/{served.name}", "--type=merge", f"--patch={json.dumps({'spec': {'engine': engine}})}"
    )
    said = infd(cluster, "status", served.name, namespace)[1]
    assert said.startswith(f"{served.name}  Ready (Paused)\nPaused: the operator changes nothing"), said
    assert set(served.pods("engine")) == before
    assert infd(cluster, "resume", served.name, namespace)[0] == 0
    eventually(
        lambda: served.pods("engine") and not before & set(served.pods("engine")), seconds=SECONDS, what="a new engine"
    )
    stack.wait_ready(cluster, served.name)
    edited = set(served.pods("engine"))
    status, said, complaints = infd(cluster, "restart", served.name, namespace)
    assert (status, said.splitlines()[-1]) == (0, f"{served.namespace}/{served.name}: all engines are new."), complaints
    eventually(lambda: not edited & set(served.pods("engine")), seconds=SECONDS, what="the former engine has ended")
    assert served.complete()


def test_the_cluster_is_examined_and_a_bundle_has_what_others_need(
    cluster: LocalCluster, served: Served, tmp_path: Path
) -> None:
    namespace = f"--namespace={served.namespace}"
    found = json.loads(infd(cluster, "doctor", namespace, "--output=json")[1])["findings"]
    health = {one["check"]: one["health"] for one in found}
    for check in ("Kubernetes", "CRD", "Operator", "Its rights", "Admission", "Image pull"):
        assert health[check] == "good", [one for one in found if one["check"] == check]
    file = tmp_path / "bundle.tar.gz"
    status, said, complaints = infd(cluster, "support-bundle", served.name, namespace, "--yes", f"--file={file}")
    assert status == 0, complaints
    with tarfile.open(file) as bundle:
        names = bundle.getnames()
    assert any(f"/{pod}/engine.log" in name for pod in served.pods("engine") for name in names), names
    status, said, complaints = infd(cluster, "status", "--why", served.name, namespace)
    assert (status, served.name in said) == (0, True), complaints


def test_a_model_is_served_by_one_command(cluster: LocalCluster, folder: str) -> None:
    served = Served(cluster, "begun")
    source = f"pvc://{folder}/{WHOLE}"
    arguments = ("run", served.name, source, "--cpu", "--engine=LlamaCpp", f"--namespace={served.namespace}")
    try:
        status, said, complaints = infd(cluster, *arguments, f"--timeout={SECONDS}", seconds=2 * SECONDS)
        assert status == 0, (said, complaints)
        assert served.complete()
    finally:
        served.leave()


@pytest.mark.full
def test_the_load_of_a_service_rises_step_by_step(cluster: LocalCluster, served: Served) -> None:
    small = ("--max-concurrency=2", "--seconds=5", "--prompt-tokens=8", "--max-tokens=8")
    arguments = ("bench", served.name, f"--namespace={served.namespace}", "--yes", "--output=json")
    status, said, complaints = infd(cluster, *arguments, *small)
    assert status in (0, 1), complaints  # a busy machine may break the objective
    levels = json.loads(said)["levels"]
    assert [level["concurrency"] for level in levels] == [1, 2][: len(levels)]
    assert levels[0]["answered"] > 0
    assert levels[0]["failed"] == 0


def test_logs_of_engines_and_routers_are_read_and_a_cause_comes_first(cluster: LocalCluster, served: Served) -> None:
    namespace = f"--namespace={served.namespace}"
    status, said, _ = infd(cluster, "logs", served.name, namespace)
    (pod,) = served.pods("engine")
    assert (status, said.splitlines()[0].startswith(f"{pod}  ")) == (0, True)
    assert "load_model: loading model" in said
    served.complete()
    eventually(
        lambda: "/v1/completions" in infd(cluster, "logs", served.name, namespace, "--router")[1],
        seconds=SECONDS,
        what="the access log has the request",
    )


def test_an_engine_that_ends_is_told_with_its_cause(cluster: LocalCluster, folder: str) -> None:
    engine = {**SMALL, "args": ["--threads=1", "--temp=otter"]}
    with applied(cluster, "broken", model={"source": f"pvc://{folder}/{WHOLE}"}, engine=engine) as broken:
        namespace = f"--namespace={broken.namespace}"

        def told() -> bool:
            return (
                "ended: InvalidArgument: `llama-server` does not take the value of `--temp`"
                in infd(cluster, "logs", broken.name, namespace)[1]
            )

        eventually(told, seconds=SECONDS, what="the cause is the first line")
        status, said, _ = infd(cluster, "status", broken.name, namespace)
        assert (status, "does not take the value of `--temp`" in said) == (1, True)
