"""A rollout under load: of engines with a free GPU and on a node whose GPUs are all in use, and of routers.

The engines compute on the CPU. Their GPUs exist in the node's status only, so that the scheduler counts them.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e import images
from e2e.deploy import stack
from e2e.helpers.change_under_load import LoadedChange, UnderLoad
from e2e.helpers.infd_command import infd
from e2e.helpers.node_status_gpus import offer_gpus
from e2e.helpers.served_deployment import Served
from e2e.load import Fault, Load, Result
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.cli.edit.edits import ROUTERS

NAME = "rolled"
REQUESTS = 2000
"""Requests of each phase, at least."""
BEFORE, AFTER = 200, 300
"""Requests answered before the change and after the last engine has been replaced."""
ROLL_SECONDS = 900
"""Limit of a rollout: engines start and stop one after the other, on two cores that the load keeps busy."""
PATIENT_SECONDS = 310.0
"""The client's timeout: a router holds a request for 300 s at most."""

Roll = Callable[[str], Result]


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The sample on GPUs; the node's status shows two."""
    offer_gpus(cluster, 2)
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    resource["spec"]["hardware"] = {"device": "GPU"}
    resource["spec"]["parallelism"] = {"tensor": 1}
    resource["spec"]["engine"]["image"] = images.reference("engine-cpu")
    try:
        with Served(cluster, NAME).serving(resource) as served:
            yield served
    finally:
        offer_gpus(cluster, 0)


@pytest.fixture(scope="module")
def load(served: Served) -> Load:
    """A client with a long timeout, which has learned the right answers."""
    load = Load(served.address, served.name, request_seconds=PATIENT_SECONDS)
    load.learn()
    return load


@pytest.fixture
def under_load(load: Load, say: Say) -> UnderLoad:
    """Does something under load."""
    return LoadedChange(load, say, REQUESTS, ROLL_SECONDS, BEFORE, AFTER)


@pytest.fixture
def roll(served: Served, under_load: UnderLoad) -> Roll:
    """Changes the engines' environment under load, and waits until all engines are new and ready."""

    def _roll(name: str) -> Result:
        old, engines = set(served.pods("engine")), len(served.pods("engine"))

        def change() -> None:
            env = [*_environment(served), {"name": "ROLLED", "value": name}]
            served.patch({"engine": {"env": env}})
            eventually(
                lambda: not old & set(served.pods("engine")) and _ready(served) == engines,
                seconds=ROLL_SECONDS,
                what=lambda: f"{engines} new engines: {served.pods('engine')}",
            )

        return under_load(name, change)

    return _roll


def test_a_renewal_of_the_routers_loses_no_request(served: Served, under_load: UnderLoad) -> None:
    old = set(served.pods("router"))

    def renew() -> None:
        """Make the edit of the command, whose routers are the latest here, and let it follow the rollout.

        The rollout may end before the command has started; it then finds the routers as they should be.
        """
        served.patch(ROUTERS.edit(_resource(served)))
        ends = ("all routers are renewed.", "routers are as this release builds them. Nothing was changed.")
        assert _renewed(served).endswith(tuple(f"default/{NAME}: {end}\n" for end in ends))
        assert not old & set(_living(served)), "the command waits until routers are replaced"
        eventually(
            lambda: not old & set(served.pods("router")),
            seconds=ROLL_SECONDS,
            what=lambda: f"the earlier routers have ended: {served.pods('router')}",
        )

    result = under_load("renewal of 2 routers", renew)
    assert result.beyond(Fault.ROLL_ROUTERS) == ()
    assert result.ok == result.sent >= REQUESTS


def test_a_rollout_with_a_free_gpu_loses_no_request(served: Served, roll: Roll) -> None:
    result = roll("rollout of 1 engine, a GPU is free")
    assert _strategy(served) == ("Surge", "FreeSlot")
    assert result.beyond(Fault.ROLL_ENGINES) == ()
    assert result.ok == result.sent >= REQUESTS


@pytest.mark.full
def test_a_rollout_of_one_engine_without_a_free_gpu_loses_no_request(served: Served, roll: Roll) -> None:
    offer_gpus(served.cluster, 1)
    result = roll("rollout of 1 engine, no GPU is free")
    assert _strategy(served) == ("Replace", "NoNodeCame")
    assert result.ok == result.sent >= REQUESTS, "routers hold more than 64 requests, for up to 300 s"
    assert result.gap < PATIENT_SECONDS


@pytest.mark.full
def test_a_rollout_of_two_engines_without_a_free_gpu_loses_no_request(served: Served, roll: Roll) -> None:
    offer_gpus(served.cluster, 2)
    served.scale(2)
    result = roll("rollout of 2 engines, no GPU is free")
    assert _strategy(served) == ("Replace", "NoFreeSlot")
    assert result.ok == result.sent >= REQUESTS


def _resource(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(served.kubectl("get", "infd", NAME, "--output=json"))
    return found


def _environment(served: Served) -> list[dict[str, str]]:
    return [variable for variable in _resource(served)["spec"]["engine"]["env"] if variable["name"] != "ROLLED"]


def _ready(served: Served) -> int:
    return int(_resource(served)["status"]["readyReplicas"])


def _renewed(served: Served) -> str:
    """What `infd renew` prints, as a user runs it."""
    status, shown, complaints = infd(served.cluster, "renew", "--routers", NAME, seconds=ROLL_SECONDS)
    assert status == 0, complaints
    return shown


def _living(served: Served) -> list[str]:
    """The routers that are not being deleted."""
    selector = f"inference-operator.dev/name={NAME},app.kubernetes.io/component=router"
    found = json.loads(served.kubectl("get", "pods", f"--selector={selector}", "--output=json"))
    return [pod["metadata"]["name"] for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]


def _strategy(served: Served) -> tuple[str, str]:
    deployment = json.loads(served.kubectl("get", "deployment", f"{NAME}-engine", "--output=json"))
    decision = json.loads(deployment["metadata"]["annotations"]["inference-operator.dev/rollout"])
    return decision["strategy"], decision["why"]
