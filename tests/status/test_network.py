"""The network that NCCL uses between nodes, from the log of a start to the status."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import EngineStatus, NetworkStatus
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.status.network import network
from inference_operator.status.report import report
from inference_operator.views.lookups import LogText
from inference_operator.views.pod import PodView
from tests.status.situations import CURRENT, loading, observed, reported, starting, view
from tests.testing.builders import deployment_status, ready_pod

RESOURCE = "rdma/ib"
STARTING = view(starting(state={"running": {}}, started=False), age=1, template=CURRENT)
SERVING = view(ready_pod(), age=1, template=CURRENT)
SOCKETS = "h100-0:77:77 [0] NCCL INFO Using network Socket\nh100-0:77:77 [0] NCCL INFO ncclCommInitRank comm 0x1\n"
DEVICES = "h100-0:77:99 [7] NCCL INFO Channel 01/0 : 15[7] -> 7[7] [receive] via NET/IB/7/GDRDMA\n"


def with_log(text: str, before: Inputs | None = None) -> Inputs:
    situation = before or loading(pods=[STARTING])
    assert STARTING.start
    assert STARTING.start.log
    return replace(situation, lookups={STARTING.start.log: LogText(text)})


def told(in_use: str, template: str | None = CURRENT) -> NetworkStatus:
    return NetworkStatus(in_use=in_use, resource=RESOURCE, pod_template_hash=template or "")


def serving(before: NetworkStatus) -> Inputs:
    """Engines that serve, with this network in the status."""
    engines: dict[str, Any] = {"engines": deployment_status(1), "routers": deployment_status(2), "pods": [SERVING]}
    status = reported(observed(**engines)).status
    engine = status.engine or EngineStatus(image="")
    known = status.model_copy(update={"engine": engine.model_copy(update={"network": before})})
    return observed(**engines, before=known)


def reported_network(
    given: Inputs, template: str | None, pods: Sequence[PodView], resource: str | None
) -> NetworkStatus | None:
    return network(given, given.resource.status.engine, template, pods, resource)


def test_the_log_of_a_start_tells_the_network() -> None:
    assert reported_network(with_log(SOCKETS), CURRENT, [STARTING], RESOURCE) == told("Socket")
    assert reported_network(with_log(f"{SOCKETS}{DEVICES}"), CURRENT, [STARTING], RESOURCE) == told("IB")
    assert reported_network(with_log("INFO loading"), CURRENT, [STARTING], RESOURCE) is None


def test_engines_that_ask_for_no_network_devices_report_none() -> None:
    assert reported_network(with_log(SOCKETS), CURRENT, [STARTING], None) is None
    assert reported_network(with_log(SOCKETS), None, [STARTING], RESOURCE) is None


def test_the_network_stays_for_the_same_template() -> None:
    assert reported_network(serving(told("Socket")), CURRENT, [SERVING], RESOURCE) == told("Socket")
    assert reported_network(serving(told("Socket", "earlier")), CURRENT, [SERVING], RESOURCE) is None
    again = with_log(DEVICES, serving(told("Socket")))
    assert reported_network(again, CURRENT, [STARTING], RESOURCE) == told("IB")


@pytest.mark.parametrize(
    ("in_use", "outdated", "reason", "summary"),
    [
        ("Socket", None, Reason.NETWORK_DEVICES_UNUSED, Reason.NETWORK_DEVICES_UNUSED),
        ("Socket", Reason.ENGINES_OUTDATED, Reason.ENGINES_OUTDATED, Reason.SERVING),
        ("IB", None, Reason.SERVING, Reason.SERVING),
    ],
)
def test_engines_available_has_a_reason_of_its_own_while_sockets_are_used_in_place_of_the_network_devices(
    in_use: str, outdated: Reason | None, reason: Reason, summary: Reason
) -> None:
    given = serving(told(in_use))
    found = outcome(given)
    assert isinstance(found, Planned)
    used = found.roles[0].used
    built = replace(used.template, inputs_hash="of this release") if outdated else used.template
    role = replace(found.roles[0], used=replace(used, built=built))
    status = report(given, replace(found, roles=(role,)), []).status
    condition = status.condition(ConditionType.ENGINES_AVAILABLE)
    assert condition is not None
    assert (condition.status, condition.reason, status.reason) == ("True", reason, summary)
    sentence = "NCCL connects the nodes by TCP sockets (`NET/Socket`), which is slow, and not by `rdma/ib`"
    assert (sentence in condition.message) == (in_use == "Socket")
    assert status.engine
    assert status.engine.network == told(in_use)
