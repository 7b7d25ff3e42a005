"""`infd list --traffic`: the numbers of two readings, the table at two widths, and the readings of real pages."""

import argparse
import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from inference_operator.cli.live_resource import LiveResource
from inference_operator.cli.parser import RefusedError
from inference_operator.cli.status.command import Reading, readings
from inference_operator.cli.status.listing import BETWEEN_SECONDS
from inference_operator.cli.status.traffic import TrafficRow, traffic_row, traffic_table
from inference_operator.engines.telemetry import EngineLoad
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.views.samples import Samples
from tests.cli.conftest import Infd
from tests.cli.forwarding import Behind, behind_api_server
from tests.cli.test_status import ROUTER_POD, SERVING, engine, live
from tests.testing.builders import NOW, inference_deployment, pod, ready_pod
from tests.testing.golden import GoldenFile

LONG = "a-model-with-a-long-name-of-many-words-qwen"
NOBODY = TrafficRow("default", "otter", "0/1", None, None, None, None, None, None, None)


def reading(generated: int | None, **more: object) -> LiveResource:
    found = live(SERVING, engine("a", ready_pod()), ROUTER_POD, **more)  # type: ignore[arg-type] # as named
    (uid,) = found.samples.engines
    return replace(found, loads={uid: EngineLoad(12, 3, 0.42, 0, 90, generated)})


def row(*, before: int | None = 1_000, now: int | None = 4_000) -> TrafficRow:
    first = reading(before, arrivals=100, streams=(10, 20, 20, 20))
    second = reading(now, arrivals=130, streams=(30, 46, 49, 50))
    return traffic_row(second, first, elapsed=2.0, at=NOW + timedelta(seconds=2))


def test_rates_are_those_between_two_readings() -> None:
    found = row()
    assert found == TrafficRow(
        "default", "qwen", found.engines_ready, 15.0, 12, 7, 0.1, 1.0, tokens_per_second=1500.0, kv_cache_usage=0.42
    )


def test_what_nobody_tells_is_no_number() -> None:
    assert row(now=None).tokens_per_second is None
    assert row(now=10).tokens_per_second == 0.0  # the engine has started again
    silent = replace(reading(1), samples=Samples(), loads={})
    found = traffic_row(silent, silent, elapsed=2.0, at=NOW)
    assert asdict(found) == asdict(
        replace(NOBODY, name="qwen", engines_ready=found.engines_ready, no_traffic="no router answered")
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_of_several_resources(columns: int, snapshot: SnapshotAssertion) -> None:
    rows = [replace(row(), name=LONG, requests_per_second=1234.5), NOBODY, row()]
    text = io.StringIO()
    Console(file=text, width=columns, highlight=False).print(traffic_table(rows, with_namespace=columns > 100))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert max(map(len, lines)) <= columns
    assert "".join(f"{line}\n" for line in lines) == snapshot.use_extension(GoldenFile.ending("txt"))


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    with behind_api_server(tmp_path, monkeypatch) as found:
        yield found


def test_pages_are_read_twice_through_the_api_server(infd: Infd, behind: Behind) -> None:
    ports = {"containers": [{"name": "engine", "ports": [{"name": "http", "containerPort": 8000}]}]}
    behind.serve(
        {**inference_deployment(), "status": {"ready": "1/1", "readyReplicas": 1}},
        {**pod(name="qwen-engine-a", component=ENGINE, status=ready_pod()), "spec": ports},
        pod(name="qwen-router-a", component=ROUTER, status=ready_pod()),
    )
    page = "vllm:num_requests_running 3\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n"
    behind.pages["/api/v1/namespaces/default/pods/qwen-engine-a:8000/proxy/metrics"] = page
    status, said, complaints = infd("list", "qwen", "--traffic", "--output=json")
    assert (status, complaints) == (0, "")
    (found,) = json.loads(said)["items"]
    assert (found["name"], found["running"], found["queued"], found["kvCacheUsage"]) == ("qwen", 3, 2, 0.5)
    status, said, _ = infd("list", "--traffic", "-A")
    assert (status, said.split()[0], said.splitlines()[1].split()[:3]) == (0, "NAMESPACE", ["default", "qwen", "1/1"])


def test_status_reads_each_page_once_and_who_may_read_none_is_told_once(infd: Infd, behind: Behind) -> None:
    ports = {"containers": [{"name": "router", "ports": [{"name": "metrics-0", "containerPort": 9100}]}]}
    routers = [pod(name=f"qwen-router-{one}", component=ROUTER, status=ready_pod()) for one in "ab"]
    behind.serve(inference_deployment(), *({**router, "spec": ports} for router in routers))
    other = inference_deployment(name="otter")
    other["metadata"]["uid"] = "other"
    behind.objects[Ref.of(other).path] = other
    _, said, _ = infd("status", "qwen")
    assert "no router answered" in said
    pages = [path for path in behind.asked if "/proxy/" in path]
    assert len(pages) == len(set(pages)) == 4
    behind.forbidden = set(pages)
    _, said, _ = infd("status", "qwen")
    assert "Traffic    you lack the right to get `pods/proxy`" in said
    _, said, _ = infd("list", "--traffic")
    assert said.splitlines()[-2:] == ["", "otter, qwen: you lack the right to get `pods/proxy`."]
    (found, *_) = json.loads(infd("list", "--traffic", "--output=json")[1])["items"]
    assert found["noTraffic"] == "you lack the right to get `pods/proxy`"


def test_programs_get_the_rows_in_the_order_of_the_table(infd: Infd, behind: Behind) -> None:
    names = [f"{letter}-model" for letter in "hgfedcba"]
    for name in names:
        one = inference_deployment(name=name)
        one["metadata"]["uid"] = f"uid-of-{name}"
        behind.objects[Ref.of(one).path] = one
    found = json.loads(infd("list", "--traffic", "--output=json")[1])["items"]
    assert [row["name"] for row in found] == sorted(names)


class Emptied:
    """A cluster whose resources were just deleted, or are after the first answers."""

    def __init__(self, *answers: Manifest) -> None:
        self._answers = list(answers)

    async def get(self, _: object) -> Manifest | None:
        """The next answer."""
        return self._answers.pop(0) if self._answers else None

    async def each(self, *_: object, **__: object) -> AsyncIterator[Manifest]:
        for one in self._answers:
            yield one


def readings_of(name: str | None, cluster: object) -> AsyncIterator[Reading]:
    options = argparse.Namespace(name=name, namespace="default", all_namespaces=False, engines=None)
    return readings(cast("Any", cluster), options)


def test_watching_nothing_pauses_and_what_was_deleted_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    async def read(*_: object) -> LiveResource:
        return reading(0)

    monkeypatch.setattr("inference_operator.cli.status.command.asyncio.sleep", pause)
    monkeypatch.setattr("inference_operator.cli.status.command.live_resource", read)

    async def watch() -> None:
        found = readings_of(None, Emptied())
        assert [(await anext(found)).now, (await anext(found)).now] == [{}, {}]
        cluster = Emptied(inference_deployment())
        found = readings_of("qwen", cluster)
        assert len((await anext(found)).now) == 1
        with pytest.raises(RefusedError, match="default/qwen was deleted"):
            await anext(found)

    asyncio.run(watch())
    assert paused == [BETWEEN_SECONDS] * 2


def test_wrong_usage_is_refused(infd: Infd, behind: Behind) -> None:
    assert not behind.objects
    for scope in (["-A"], ["-l", "team=a"]):
        assert infd("list", "qwen", *scope)[2] == "Give a name, or --all-namespaces or --selector.\n"
    assert infd("list", "--watch")[2] == "--watch needs a terminal, and a table as output.\n"
    assert infd("list", "--traffic", "--watch")[2] == "--watch needs a terminal, and a table as output.\n"
    status, _, complaints = infd("list", "--traffic", "otter")
    assert (status, complaints) == (3, "There is no InferenceDeployment `otter` in the namespace `default`.\n")
    status, said, _ = infd("list", "--traffic")
    nothing = "There is no InferenceDeployment in the namespace `default`. Create one: infd run NAME MODEL\n"
    assert (status, said) == (0, nothing)
