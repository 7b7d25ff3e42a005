"""`infd status` and `infd list`: the facts, the screens at two widths, and rates between two readings."""

import io
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
import yaml
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from inference_operator.api.resource import resource
from inference_operator.cli.live_resource import LiveEvent, LiveResource
from inference_operator.cli.status import listing as list_command
from inference_operator.cli.status.report import StatusReport, Traffic, status_report
from inference_operator.cli.status.screen import screen
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.views.pod import GROUP_LABEL, POD_INDEX_LABEL, TEMPLATE_HASH_ANNOTATION, pod_view
from inference_operator.views.samples import EngineActivity, EngineSample, Histogram, RouterSample, Samples
from tests.cli.conftest import Infd
from tests.status.situations import NO_GPU, reported, starting
from tests.status.test_states import STATES
from tests.testing.builders import NOW, inference_deployment, pod, ready_pod, waiting
from tests.testing.golden import GoldenFile
from tests.testing.stored_answers import listing

SERVING, STARTS, MISSPELT = "autoscaling that follows the demand", "first start, engines load", "misspelt argument"
ENDLESS = float("inf")
BOUNDS = (0.1, 0.5, 1.0, ENDLESS)
FAILED = waiting("ImagePullBackOff", "Back-off pulling image")


def live(state: str, *pods: Manifest, arrivals: int = 100, streams: tuple[float, ...] = (0, 0, 0, 0)) -> LiveResource:
    """A reading of a situation, with pods and the statistics of one router."""
    situation, results, _ = STATES[state]
    raw = inference_deployment(autoscaling={"minReplicas": 0, "maxReplicas": 4})
    created = {**raw["metadata"], "creationTimestamp": (NOW - timedelta(days=3)).isoformat()}
    raw = {**raw, "metadata": created, "status": reported(situation, results).status.dump()}
    views = [pod_view(one, component=one["metadata"]["labels"]["app.kubernetes.io/component"]) for one in pods]
    ready = [one for one in views if one.component == ENGINE and one.ready]
    busy = {one.uid: EngineActivity(EngineSample("qwen", 12, 3, ()), sessions=0, at=0.0) for one in ready}
    routers = {"pod-r": RouterSample({"10.0.0.1": 15}, queued=4, held=0, arrivals=arrivals)}
    events = (LiveEvent("2026-01-02T03:00:05Z", "ScaledUp", "From 1 to 2 engines: 88 requests at 32 for each engine."),)
    first = Histogram(BOUNDS, tuple(float(one) for one in streams), 0.0)
    return LiveResource(raw, resource(raw), views, Samples(busy, routers), events, first)


def engine(name: str, status: Manifest, age: timedelta = timedelta(hours=5)) -> Manifest:
    return pod(name=f"qwen-engine-7c9f-{name}", status=status, age=age)


ROUTER_POD = pod(name="qwen-router-5d8b-r", component=ROUTER, status=ready_pod(), age=timedelta(days=2))


def printed(report: StatusReport, columns: int) -> str:
    text = io.StringIO()
    Console(file=text, width=columns, highlight=False).print(screen(report, NOW))
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def report_of(state: str, *pods: Manifest) -> StatusReport:
    """A report of two readings, in which 30 streams began within 3 s."""
    before = live(state, *pods, arrivals=100, streams=(10, 20, 20, 20))
    now = live(state, *pods, arrivals=130, streams=(30, 46, 49, 50))
    return status_report(now, at=NOW, before=before, elapsed=3.0)


def of_template(made: Manifest, template: str) -> Manifest:
    made["metadata"]["annotations"] = {TEMPLATE_HASH_ANNOTATION: template}
    return made


OLD = [of_template(engine(name, ready_pod()), "old") for name in ("a", "b")]
SCREENS: dict[str, tuple[str, list[Manifest]]] = {
    "serving": (SERVING, [engine("a", ready_pod()), engine("b", ready_pod(), timedelta(minutes=4)), ROUTER_POD]),
    "starting": (STARTS, [engine("a", FAILED), ROUTER_POD]),
    "rollout": (SERVING, [*OLD, of_template(engine("c", starting(), timedelta(minutes=1)), "new"), ROUTER_POD]),
    "refused": (MISSPELT, []),
    "paused": ("paused, serving", [engine("a", ready_pod()), ROUTER_POD]),
}


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_of_a_situation(name: str, columns: int, snapshot: SnapshotAssertion) -> None:
    state, pods = SCREENS[name]
    text = printed(report_of(state, *pods), columns)
    assert max(map(len, text.splitlines())) <= columns
    assert text == snapshot.use_extension(GoldenFile.ending("txt"))


def test_the_pods_of_a_group_say_what_each_waits_for() -> None:
    running = starting(state={"running": {}}, started=False)
    follows = {"exitCode": 1, "message": "Member qwen-engine-0-1 ended first: exit status 1."}
    again = starting(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": follows})
    ended = starting(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": {"exitCode": 1}})
    cases = [
        ((running, NO_GPU), ["waits for 1 member to join", "Unschedulable: 0/3 nodes are available: 3 Insufficient"]),
        ((starting(), running), ["waits for its network", "waits for the leader"]),
        ((running, running), ["starts", "starts"]),
        ((again, ended), ["waits until it is started again", "CrashLoop: container `engine` ended with exit code 1"]),
    ]
    for statuses, states in cases:
        pods = [engine("0", status) for status in statuses]
        for index, one in enumerate(pods):
            one["metadata"]["name"] = f"qwen-engine-0-{index}"
            one["metadata"]["labels"] |= {GROUP_LABEL: "qwen-engine-0", POD_INDEX_LABEL: str(index)}
        found = status_report(live("nodes were given back", *pods), at=NOW).engines
        assert [one.name for one in found] == ["qwen-engine-0-0", "qwen-engine-0-1"]
        assert [one.state.startswith(state) for one, state in zip(found, states, strict=True)] == [True] * 2, found


def test_rates_and_first_bytes_are_those_between_two_readings() -> None:
    found = report_of(SERVING, ROUTER_POD)
    assert found.traffic == Traffic(15, 4, 0, 130, per_second=10.0, first_byte_half=0.1, first_byte_most=1.0)


def test_one_reading_has_what_the_routers_counted_since_they_started() -> None:
    one = status_report(live(SERVING, arrivals=1_500, streams=(10, 18, 20, 20)), at=NOW)
    assert one.traffic == Traffic(15, 4, 0, 1_500, None, first_byte_half=0.1, first_byte_most=1.0)
    words = "1,500 requests since its routers started, first byte of streams: p50 0.1 s, p95 1 s"
    assert words in printed(one, 120)


def test_a_router_that_started_again_has_no_rates() -> None:
    restarted = status_report(live(SERVING, arrivals=5), at=NOW, before=live(SERVING), elapsed=3.0)
    assert restarted.traffic == Traffic(15, 4, 0, 5)
    other = live(SERVING)
    moved = replace(other, samples=Samples({}, {"pod-s": RouterSample({}, 0, 0, 500)}))
    assert status_report(moved, at=NOW, before=other, elapsed=3.0).traffic == Traffic(0, 0, 0, 500)


def silent(*pods: Manifest, is_forbidden: bool = False) -> str:
    """What the screen says about the traffic of a resource whose routers tell nothing."""
    found = replace(live(SERVING, *pods), samples=Samples(), is_forbidden=is_forbidden)
    (line,) = [line for line in printed(status_report(found, at=NOW), 120).splitlines() if line.startswith("Traffic")]
    return line.removeprefix("Traffic").strip()


def test_the_screen_says_why_there_is_no_traffic() -> None:
    starting_router = pod(name="qwen-router-5d8b-s", component=ROUTER, status=starting())
    assert silent() == "there is no router yet"
    assert silent(starting_router) == silent(starting_router, is_forbidden=True) == "no router is ready yet"
    assert silent(starting_router, ROUTER_POD, is_forbidden=True) == "you lack the right to get `pods/proxy`"
    assert silent(ROUTER_POD) == "no router answered"
    external = resource(inference_deployment(router={"strategy": "External"}))
    found = status_report(replace(live(SERVING), samples=Samples(), found=external), at=NOW)
    assert found.no_traffic == "`router.strategy` is External, so no router of the operator counts requests"


def test_every_situation_has_a_screen_and_its_trouble_comes_first() -> None:
    for state in STATES:
        found = status_report(live(state, engine("a", FAILED)), at=NOW)
        lines = printed(found, 1000).splitlines()
        assert lines[0].startswith("qwen")
        assert not found.message or lines[1] == found.message
        json.dumps(asdict(found))


def test_an_event_of_somebody_else_does_nothing_to_a_terminal() -> None:
    found = replace(live(SERVING), events=(LiveEvent("2026-01-02T03:00:05Z", "Otter", "\x1b[2Jcleared"),))
    assert "\x1b" not in printed(status_report(found, at=NOW), 120)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_the_list_says_below_the_table_what_is_wrong(columns: int, snapshot: SnapshotAssertion) -> None:
    reports = [status_report(live(state), at=NOW) for state in (SERVING, MISSPELT)]
    of_all = columns > 80
    lines = list(list_command.lines(reports, with_namespace=of_all, wide=columns > 120))
    assert lines[1].split()[of_all:][:3] == ["qwen", "Qwen3-8B", "True"]
    assert lines[-1].endswith(f"qwen: {reports[1].message}")
    assert max(map(len, lines[:3])) <= columns
    assert "".join(f"{line}\n" for line in lines) == snapshot.use_extension(GoldenFile.ending("txt"))


@pytest.mark.parametrize(("form", "shown"), [("name", None), ("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_list_for_programs(infd: Infd, server: dict[str, bytes], form: str, shown: Callable[[str], Any]) -> None:
    server[RESOURCES] = listing(inference_deployment())
    status, said, _ = infd("list", "-o", form)
    assert status == 0
    if shown is None:
        assert said == "inferencedeployment.inference-operator.dev/qwen\n"
    else:
        (found,) = shown(said)["items"]
        assert (found["name"], found["ready"], found["enginesReady"]) == ("qwen", False, "")


RESOURCES = "/apis/inference-operator.dev/v1alpha1/namespaces/default/inferencedeployments"


def test_the_last_line_of_the_list_is_how_far_a_change_of_the_operators_settings_is(
    infd: Infd, server: dict[str, bytes]
) -> None:
    waits = {"type": "Renewed", "status": "False", "reason": "WaitingForTurn", "message": "Others replace pods."}
    told = inference_deployment(name="waits")
    told["status"] = {"conditions": [waits]}
    server[RESOURCES] = listing(inference_deployment(), told)
    status, said, _ = infd("list")
    assert status == 0
    assert said.endswith("\n\nChanges of the operator's settings: of 2, 1 wait for their turn.\n")
    server[RESOURCES] = listing(inference_deployment())
    assert "Changes of" not in infd("list")[1]
