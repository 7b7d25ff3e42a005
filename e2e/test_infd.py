"""Commands of `infd` about resources on a real node: of a service that answers, and of one that ends."""

import json
from collections.abc import Iterator

import pytest

from e2e import images, stack
from e2e.claim import claim_of
from e2e.cluster.handle import LocalCluster
from e2e.engine_contract import applied
from e2e.infd_command import infd
from e2e.model.tiny_gguf import write_gguf
from e2e.model.tiny_llama import model_folder
from e2e.served import Served
from e2e.test_llama_cpp import IMAGE, SMALL, WHOLE
from e2e.waiting import eventually

SECONDS = 120
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
    for part in ("Engine     LlamaCpp, ", "0 run, 0 wait", "requests/s", f"{served.name}-router-"):
        assert part in said
    status, said, _ = infd(cluster, "status", served.name, namespace, "--output=json")
    found = json.loads(said)
    assert (status, found["ready"], found["traffic"]["per_second"]) == (0, True, 0.0)
    assert f"{served.name}  yes" in infd(cluster, "list", namespace)[1]


def test_a_question_is_answered_through_the_api_server_and_a_router(cluster: LocalCluster, served: Served) -> None:
    namespace = f"--namespace={served.namespace}"
    fixed = (namespace, "--max-tokens=8", "--temperature=0")
    status, said, complaints = infd(cluster, "chat", served.name, "Tell me about otters", *fixed)
    assert (status, bool(said.strip())) == (0, True), complaints
    assert "first token after " in complaints.splitlines()[-1]
    status, _, complaints = infd(cluster, "chat", served.name, "Hi", namespace, "--key-from=nowhere")
    assert (status, "there is no Secret `nowhere`" in complaints) == (2, True)


def test_the_traffic_of_all_services_is_shown_in_numbers(cluster: LocalCluster, served: Served) -> None:
    assert served.complete()
    status, said, complaints = infd(cluster, "top", "-A", "--output=json")
    assert (status, complaints) == (0, "")
    (found,) = (one for one in json.loads(said) if one["name"] == served.name)
    assert (found["namespace"], found["engines_ready"], found["running"]) == (served.namespace, "1/1", 0)
    assert (found["requests_per_second"], found["queued"]) == (0.0, 0)
    assert (
        infd(cluster, "top", served.name, f"--namespace={served.namespace}")[1].splitlines()[1].startswith(served.name)
    )


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
