"""What `infd logs` prints: several containers' logs, and before them why an engine ended."""

import json
from dataclasses import replace

import pytest
import yaml

from inference_operator.api.reasons import ConditionType
from inference_operator.cli.logs.command import Container, Folding, containers, log_lines, merged
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.views.lookups import LogText
from tests.cli.conftest import Infd
from tests.engines.test_root_error import OUTER, QUOTED, VLLM, raised
from tests.status.engine_states import REFUSING, log_of
from tests.status.situations import RAW, loading, message, reported
from tests.testing.builders import inference_deployment, pod, waiting
from tests.testing.stored_answers import ApiServer, listing

ENGINE_LOG = """\
2026-11-26T10:00:00.100Z INFO: Application startup complete.
2026-11-26T10:00:01.100Z INFO: 10.0.0.1:50000 - "GET /health HTTP/1.1" 200 OK
2026-11-26T10:00:02.100Z INFO: 10.0.0.2:50000 - "POST /v1/completions HTTP/1.1" 200 OK
2026-11-26T10:00:03.100Z Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]
2026-11-26T10:00:04.100Z WARNING: it repeats
2026-11-26T10:00:05.100Z WARNING: it repeats
"""
OTHER_LOG = "2026-11-26T10:00:02.000Z from the other engine\n"


def test_logs_are_merged_by_time_and_noise_is_left_out_and_counted() -> None:
    folding = Folding()
    lines = merged([*log_lines(ENGINE_LOG, "a"), *log_lines(OTHER_LOG, "b")])
    shown = [*folding.shown(lines), *folding.rest()]
    assert shown == [
        "a  INFO: Application startup complete.",
        "b  from the other engine",
        'a  INFO: 10.0.0.2:50000 - "POST /v1/completions HTTP/1.1" 200 OK',
        "a  WARNING: it repeats",
        "a  (the line before came 1 more time)",
    ]
    assert folding.left_out == 2


def test_with_verbose_nothing_is_left_out() -> None:
    folding = Folding(verbose=True)
    assert len([*folding.shown(log_lines(ENGINE_LOG, "a")), *folding.rest()]) == 6
    assert folding.left_out == 0


def test_a_message_of_haproxy_to_both_of_its_streams_is_printed_once() -> None:
    texts = [
        "[NOTICE]   (1) : New worker (8) forked",
        "[WARNING]  (8) : Server engines/e1 is UP.",
        "[WARNING]  (8) : Server engines/e2 is UP.",
        "Server engines/e1 is UP.",
        "Server engines/e2 is UP.",
        "Server engines/e2 is DOWN.",
        "[WARNING]  (8) : Server engines/e2 is DOWN.",
        "[WARNING]  (8) : Server engines/e2 is UP.",
    ]
    log = "".join(f"{at} {text}\n" for at, text in enumerate(texts))
    assert [*Folding().shown(log_lines(log, "a"))] == [f"a  {texts[place]}" for place in (0, 1, 2, 5, 7)]
    assert len([*Folding(verbose=True).shown(log_lines(log, "a"))]) == 8


def logs_of(server: dict[str, bytes], log: str) -> str:
    """Let an API server have one engine with a log; returns the path of the log."""
    live = inference_deployment()
    server[Ref.of(live).path] = json.dumps(live).encode()
    container = {"name": "engine", "state": {"running": {}}}
    server[POD.path("default")] = listing(pod(name="qwen-engine-a", status={"containerStatuses": [container]}))
    path = f"{POD.path('default')}/qwen-engine-a/log"
    server[path] = log.encode()
    return path


@pytest.mark.parametrize(
    ("count", "shown"), [(0, []), (1, ["d"]), (2, ["c", "d"]), (9, list("abcd")), (-1, list("abcd"))]
)
def test_lines_are_counted_without_those_that_are_left_out(
    infd: Infd, server: dict[str, bytes], count: int, shown: list[str]
) -> None:
    probe = '10.0.0.1:50000 - "GET /health HTTP/1.1" 200 OK'
    texts = ["a", "b", *[probe] * 3_000, "c", "d", *[probe] * 5_000]
    path = logs_of(server, "".join(f"2026-11-26T10:00:00.{at:09}Z {text}\n" for at, text in enumerate(texts)))
    status, said, _ = infd("logs", "qwen", "--tail", str(count))
    assert (status, said.splitlines()) == (0, [f"qwen-engine-a  {text}" for text in shown])
    assert sum(asked == path for asked in ApiServer.asked) <= 3
    assert len(infd("logs", "qwen", f"--tail={count}", "-v")[1].splitlines()) == (len(texts) if count < 0 else count)


def test_programs_get_each_line_with_its_time_and_container(infd: Infd, server: dict[str, bytes]) -> None:
    logs_of(server, '2026-11-26T10:00:00Z a\n2026-11-26T10:00:01Z 10.0.0.1:50000 - "GET /health HTTP/1.1" 200 OK\n')
    line = {"at": "2026-11-26T10:00:00Z", "source": "qwen-engine-a", "text": "a"}
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert read(infd("logs", "qwen", "-o", form)[1]) == {"causes": [], "items": [line]}
    status, _, complaint = infd("logs", "qwen", "-f", "-o", "json")
    assert (status, json.loads(complaint)["error"]["reason"]) == (2, "Usage")


def test_repeats_over_two_readings_are_counted_once() -> None:
    folding = Folding()
    first = [*folding.shown(log_lines("1 x\n2 x\n", "a"))]
    second = [*folding.shown(log_lines("3 x\n4 y\n", "a"))]
    assert first == ["a  x"]
    assert second == ["a  (the line before came 2 more times)", "a  y"]


def test_what_a_client_makes_an_engine_log_does_nothing_to_a_terminal() -> None:
    (line,) = log_lines("1 \x1b[32mINFO\x1b[0m prompt: \x1b]52;c;bHM=\x07\x1b[2J\n", "a")
    assert line.text == "INFO prompt: \ufffd]52;c;bHM=\ufffd\ufffd[2J"


def test_containers_that_never_ran_have_no_log_and_one_container_needs_no_name() -> None:
    def with_containers(name: str, *statuses: Manifest) -> Manifest:
        return pod(name=name, status={"containerStatuses": list(statuses)})

    running: Manifest = {"state": {"running": {}}}
    waiting: Manifest = {"state": {"waiting": {}}}
    pods = [
        with_containers("b", {"name": "haproxy-1", **running}, {"name": "haproxy-2", **running}),
        with_containers("a", {"name": "engine", **waiting, "restartCount": 3}),
        with_containers("c", {"name": "engine", **waiting, "restartCount": 0}),
    ]
    assert list(containers(pods)) == [
        Container("a", "engine", has_run=True, source="a", role="engine"),
        Container("b", "haproxy-1", has_run=False, source="b/haproxy-1", role="engine"),
        Container("b", "haproxy-2", has_run=False, source="b/haproxy-2", role="engine"),
    ]


RESOURCE = "/apis/inference-operator.dev/v1alpha1/namespaces/default/inferencedeployments/qwen"
PODS = "/api/v1/namespaces/default/pods"
ERROR, FILE, STATEMENT = QUOTED[0]
LOG = raised(ERROR, VLLM + FILE, STATEMENT) + OUTER


def ended(**terminated: object) -> bytes:
    """The pod of an engine that ended so in its last run."""
    status = waiting("CrashLoopBackOff", "", last={"terminated": terminated})
    status["containerStatuses"][0]["restartCount"] = 1
    return listing(pod(name="qwen-engine-a", status=status))


@pytest.fixture
def logged(server: dict[str, bytes]) -> dict[str, bytes]:
    """An API server with a resource, and an engine's log with the kubelet's times."""
    server[RESOURCE] = json.dumps(RAW).encode()
    server[f"{PODS}/qwen-engine-a/log"] = "".join(
        f"2026-11-26T10:00:00Z {line}\n" for line in LOG.splitlines()
    ).encode()
    return server


def test_the_cause_of_an_end_comes_first_in_the_words_of_the_status(infd: Infd, logged: dict[str, bytes]) -> None:
    logged[PODS] = ended(exitCode=1)
    status, output, _ = infd("logs", "qwen", "--previous", "--namespace=default")
    assert status == 0
    assert output.startswith(f"qwen-engine-a ended: ConfigurationRefused: {ERROR[:-1]}.\n\nqwen-engine-a  (EngineCore")
    situation = replace(loading(pods=[REFUSING]), lookups={log_of(REFUSING): LogText(LOG)})
    assert ERROR[:-1] in message(reported(situation), ConditionType.RECONCILING)


@pytest.mark.parametrize(
    "terminated",
    [{"exitCode": 0}, {"exitCode": 137, "reason": "OOMKilled"}, {}],
    ids=["an end in order", "killed for its memory", "no run before"],
)
def test_an_end_that_no_error_explains_has_no_cause(
    infd: Infd, logged: dict[str, bytes], terminated: dict[str, object]
) -> None:
    logged[PODS] = ended(**terminated)
    assert "ended:" not in infd("logs", "qwen", "--previous", "--namespace=default")[1]


def test_an_engine_that_has_served_refuses_nothing(infd: Infd, logged: dict[str, bytes]) -> None:
    (manifest,) = json.loads(ended(exitCode=1))["items"]
    manifest["status"]["conditions"] = [
        {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-02T03:00:00Z"},
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T04:00:00Z"},
    ]
    logged[PODS] = listing(manifest)
    output = infd("logs", "qwen", "--previous", "--namespace=default")[1]
    assert output.startswith(f"qwen-engine-a ended: CrashLoop: {ERROR[:-1]}.\n")
