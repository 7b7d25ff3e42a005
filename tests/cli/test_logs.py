"""What `infd logs` prints of several containers' logs."""

from inference_operator.cli.log_lines import Folding, log_lines, merged
from inference_operator.cli.logs import Container, containers
from inference_operator.manifest import Manifest
from tests.testing.builders import pod

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
        Container("a", "engine", has_run=True, source="a"),
        Container("b", "haproxy-1", has_run=False, source="b/haproxy-1"),
        Container("b", "haproxy-2", has_run=False, source="b/haproxy-2"),
    ]
