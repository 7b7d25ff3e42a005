"""LoRA adapters on a real node: added, replaced, removed and broken under load, and through the deaths of pods.

The right answers are those of a vLLM that was started with `--lora-modules`.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.adapter_files import write_adapter
from e2e.helpers.faults import kill_container
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of
from e2e.load import GENTLE_PAUSE_SECONDS, PROMPT, Load, Phase
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.models.adapter import WEIGHTS
from inference_operator.objects.names import ENGINE

NAME, REFERENCE = "adapted", "reference"
FILES, CACHE = "adapter-files", "adapter-cache"
SECONDS = 300
"""Limit of a step on two busy cores; a new engine takes a minute."""
WORKERS = {"": 12, "one": 10, "two": 10}
"""Requests in flight by adapter: 32 in all. The empty name is the model itself."""
AT_LEAST = 60
ASKED = 12
"""New connections in a row that get the same list: both processes are among those that answer."""
PHASE_SECONDS, AT_MOST = 900, 200_000


@pytest.fixture(scope="module")
def files(cluster: LocalCluster) -> Iterator[Path]:
    """A claim with adapters, and an empty one to which they are copied."""
    folder, cache = cluster.volumes / FILES, cluster.volumes / CACHE
    for one in (folder, cache):
        one.mkdir(exist_ok=True)
        one.chmod(0o777)
    for name, seed in (("one", 1), ("two", 2), ("first", 3), ("second", 4)):
        write_adapter(folder / name, seed)
    write_adapter(folder / "foreign", 5)
    _rename_module(folder / "foreign" / WEIGHTS)
    access = "ReadWriteMany"
    with claim_of(cluster, FILES, folder, access=access), claim_of(cluster, CACHE, cache, access=access):
        yield folder


def _rename_module(weights: Path) -> None:
    """Give the tensors a module that the model has not: only the engine finds out."""
    content = weights.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    weights.write_bytes(content[:8] + content[8:end].replace(b"q_proj", b"z_proj") + content[end:])


def resource(name: str, **model: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    sample: dict[str, Any] = yaml.safe_load(stack.SAMPLE.read_text())
    sample["metadata"]["name"] = name
    sample["spec"]["model"].update(model)
    sample["spec"]["router"] = {"replicas": 1}
    return sample


def adapter(name: str, folder: str = "") -> dict[str, str]:
    return {"name": name, "source": f"pvc://{FILES}/{folder or name}"}


@contextmanager
def applied(served: Served, manifest: Mapping[str, Any]) -> Iterator[None]:
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(manifest))
    try:
        yield
    finally:
        served.leave()


def learned(cluster: LocalCluster, files: Path) -> Mapping[str, Load]:
    """What a vLLM with `--lora-modules` answers, by adapter."""
    served, manifest = Served(cluster, REFERENCE), resource(REFERENCE)
    modules = [f"{name}=/files/{name}" for name in ("one", "two", "first", "second") if (files / name).is_dir()]
    manifest["spec"]["engine"]["args"] += ["--enable-lora", "--max-loras=4", "--lora-modules", *modules]
    manifest["spec"]["podTemplate"] = {
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": FILES, "readOnly": True}}],
        "volumeMounts": [{"name": "files", "mountPath": "/files", "readOnly": True}],
    }
    with applied(served, manifest):
        stack.wait_ready(cluster, REFERENCE)
        found = {name: Load(served.address, name or REFERENCE) for name in ("", "one", "two", "first", "second")}
        for load in found.values():
            load.learn()
    return found


class Adapted:
    """The resource of the tests, and loads of the model and of its adapters."""

    def __init__(self, served: Served, right: Mapping[str, Load]) -> None:
        self.served, self.right = served, right

    def write(self, *adapters: Mapping[str, str]) -> None:
        """Write another list of adapters."""
        change = {"spec": {"model": {"adapters": list(adapters)}}}
        self.served.kubectl("patch", f"infd/{NAME}", "--type=merge", f"--patch={json.dumps(change)}")

    def names(self) -> list[str]:
        status, text = self.served.get("/v1/models")
        return sorted(one["id"] for one in json.loads(text)["data"]) if status == 200 else []

    def await_names(self, *adapters: str) -> None:
        """Wait until both processes of the router list the model and exactly these adapters."""
        wanted = sorted([NAME, *adapters])
        eventually(
            lambda: all(self.names() == wanted for _ in range(ASKED)),
            seconds=SECONDS,
            what=lambda: f"{wanted}: {self.names()}",
        )

    def status(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self.served.kubectl("get", f"infd/{NAME}", "--output=json"))["status"]
        return {one["name"]: one for one in found.get("adapters", [])}

    def await_phase(self, phases: Mapping[str, str]) -> None:
        """Wait until exactly these adapters have these phases."""
        eventually(
            lambda: {name: one["phase"] for name, one in self.status().items()} == phases,
            seconds=SECONDS,
            what=lambda: f"the phases {phases}: {self.status()}",
        )

    def load(self, name: str, right: str = "") -> Load:
        load = Load(self.served.address, name or NAME, workers=WORKERS.get(name, 4))
        load.expect(self.right[right or name])
        return load

    def answer(self, name: str) -> str:
        return self.served.complete(PROMPT, model=name)

    def engines(self) -> set[str]:
        return set(self.served.pods(ENGINE))

    def restarts(self) -> int:
        pods = json.loads(
            self.served.kubectl("get", "pods", f"--selector=inference-operator.dev/name={NAME}", "--output=json")
        )["items"]
        return sum(one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"])


@pytest.fixture(scope="module")
def adapted(cluster: LocalCluster, files: Path) -> Iterator[Adapted]:
    """An engine with the adapter `one`, which starts beside the one that gives the right answers."""
    served, manifest = Served(cluster, NAME), resource(NAME, adapters=[adapter("one")])
    manifest["spec"]["cache"] = {"claimName": CACHE}
    with applied(served, manifest):
        right = learned(cluster, files)
        stack.wait_ready(cluster, NAME)
        found = Adapted(served, right)
        found.await_phase({"one": "Ready"})
        yield found


@contextmanager
def under_load(adapted: Adapted, say: Say, *names: str, broken: bool = False) -> Iterator[list[Phase]]:
    """Requests for the model and these adapters; none is lost but what an engine that ends has begun to answer."""
    with ExitStack() as stacked:
        phases = [
            stacked.enter_context(
                adapted.load(name).phase(
                    name or "model",
                    at_least=AT_LEAST,
                    at_most=AT_MOST,
                    seconds=PHASE_SECONDS,
                    pause=GENTLE_PAUSE_SECONDS,
                )
            )
            for name in ("", *names)
        ]
        for phase in phases:
            phase.await_answers(AT_LEAST)
        yield phases
    for phase in phases:
        say(str(phase.result))
        lost = phase.result.lost_later if broken else phase.result.lost
        assert lost == (), phase.result.losses()[:4]


def test_adapters_come_change_and_go_without_a_restart_or_a_lost_request(adapted: Adapted, say: Say) -> None:
    engines = adapted.engines()
    with under_load(adapted, say, "one"):
        adapted.write(adapter("one"), adapter("two"), adapter("changing", "first"))
        adapted.await_phase({"one": "Ready", "two": "Ready", "changing": "Ready"})
        adapted.await_names("one", "two", "changing")
        with adapted.load("changing", "first").phase("first", at_least=32, seconds=SECONDS) as first:
            pass
        adapted.write(adapter("one"), adapter("two"), adapter("changing", "second"))
        eventually(
            lambda: adapted.answer("changing") == adapted.right["second"].right_answer(),
            seconds=SECONDS,
            what="the replaced adapter answers",
        )
        with adapted.load("changing", "second").phase("second", at_least=32, seconds=SECONDS) as second:
            pass
        adapted.write(adapter("one"), adapter("two"))
        adapted.await_names("one", "two")
        status, text = adapted.served.post("/v1/completions", {"model": "changing", "prompt": "x"})
        assert status == 404
        assert "does not exist" in text
    assert (first.result.lost, second.result.lost) == ((), ())
    assert adapted.engines() == engines
    assert adapted.restarts() == 0


def test_broken_adapters_touch_neither_the_model_nor_another_adapter(adapted: Adapted, say: Say) -> None:
    engines = adapted.engines()
    with under_load(adapted, say, "one", "two"):
        adapted.write(adapter("one"), adapter("two"), adapter("foreign"), adapter("nosuch"))
        adapted.await_phase({"one": "Ready", "two": "Ready", "foreign": "Failed", "nosuch": "Refused"})
        adapted.await_names("one", "two")
        assert "kubectl logs" in adapted.status()["foreign"]["message"]
        assert "no such directory" in adapted.status()["nosuch"]["message"]
        adapted.write(adapter("one"), adapter("two"))
        adapted.await_phase({"one": "Ready", "two": "Ready"})
    assert adapted.engines() == engines


@pytest.mark.full  # two more engines take two minutes; tests/pipeline/test_adapters.py covers the decisions
def test_engines_come_and_go_with_their_adapters(adapted: Adapted, say: Say) -> None:
    with under_load(adapted, say, "one", "two"):
        adapted.served.scale(3)
        eventually(
            lambda: adapted.status()["two"]["engines"] == "3/3", seconds=SECONDS, what="all engines have the adapter"
        )
        adapted.served.scale(1)
    adapted.served.kubectl("scale", f"infd/{NAME}", "--replicas=0")
    eventually(lambda: not adapted.engines(), seconds=SECONDS, what="no engine is left")
    adapted.await_names("one", "two")
    adapted.served.scale(1)
    assert adapted.answer("two") == adapted.right["two"].right_answer()


def test_an_engine_that_dies_comes_back_with_its_adapters_without_the_operator(adapted: Adapted, say: Say) -> None:
    served = adapted.served
    (engine,) = adapted.engines()
    _scale_operator(served, 0)
    try:
        with under_load(adapted, say, "one", "two", broken=True) as phases:
            kill_container(served.cluster, engine, container=ENGINE)
            for phase in phases:
                phase.mark()
            phases[-1].await_answers(AT_LEAST)
    finally:
        _scale_operator(served, 2)
    assert adapted.engines() == {engine}
    adapted.await_phase({"one": "Ready", "two": "Ready"})


def _scale_operator(served: Served, replicas: int) -> None:
    name = f"deployment/{stack.RELEASE}"
    served.cluster.kubectl("--namespace", stack.SYSTEM, "scale", name, f"--replicas={replicas}")
    served.cluster.kubectl("--namespace", stack.SYSTEM, "rollout", "status", name, "--timeout=120s")
