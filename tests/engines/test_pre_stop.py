"""The pre-stop hook of an engine, run as the kubelet runs it, beside a server with an engine's metrics."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prometheus_client import generate_latest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.kv_transfer import KVTransfer, TransferRole
from inference_operator.engines.process import Front, ServedModel, Timeouts
from inference_operator.engines.programs import PROGRAMS_VARIABLE, programs_text
from inference_operator.engines.vllm.disaggregation_program import counts
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import SizingInputs
from tests.testing.program_waits import calling

DRAIN_SECONDS, BUSY_SECONDS = 60, 1
"""Of an engine that becomes idle, and of one that never does."""
PERIOD_SECONDS = 0.1
IDLE = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="qwen"} 0.0
vllm:num_requests_waiting{engine="0",model_name="qwen"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="qwen",reason="capacity"} 7.0
"""
RUNNING = IDLE.replace("0.0", "2.0", 1)
WAITING = IDLE.replace('waiting{engine="0",model_name="qwen"} 0.0', 'waiting{engine="0",model_name="qwen"} 1.0')


class Metrics(ThreadingHTTPServer):
    """An engine that answers with one text after the other, and then always with the last one."""

    def __init__(self, texts: Sequence[str], status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.texts, self.status, self.scrapes = list(texts), status, 0


class _Answer(BaseHTTPRequestHandler):
    server: Metrics

    def do_GET(self) -> None:
        assert self.path == "/metrics"
        text = self.server.texts[min(self.server.scrapes, len(self.server.texts) - 1)].encode()
        self.server.scrapes += 1
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Tests are quiet."""


@contextmanager
def serving_metrics(texts: Sequence[str], status: int = 200) -> Iterator[Metrics]:
    """An engine of this machine, for the time of the block."""
    with Metrics(texts, status) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def wait(
    port: int, drain: int = DRAIN_SECONDS, *, as_in_a_cluster: bool = False, front: Front | None = None
) -> subprocess.CompletedProcess[bytes]:
    timeouts = Timeouts(startup=1800, dns_staleness=0, drain=drain)
    sizes = unchecked_plan(SizingInputs(1))
    served = ServedModel("Qwen/Qwen3-8B", "qwen")
    process = Vllm(port=port).process(EngineSpec(), sizes, served, timeouts, front or Front())
    _, *rest = process.pre_stop if as_in_a_cluster else calling(process.pre_stop, f"main({PERIOD_SECONDS})")
    env = {**os.environ, PROGRAMS_VARIABLE: programs_text(process.programs)}
    return subprocess.run([sys.executable, *rest], env=env, capture_output=True, check=False, timeout=60)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Metrics]:
    texts, status = request.param
    with serving_metrics(texts, status) as server:
        yield server


@pytest.mark.parametrize(
    ("engine", "scrapes"),
    [
        (((IDLE,), 200), 1),
        (((RUNNING, IDLE), 200), 2),
        (((RUNNING, WAITING, IDLE), 200), 3),
        (((IDLE.replace("0.0", "0"),), 200), 1),
    ],
    indirect=["engine"],
)
def test_the_pre_stop_hook_ends_once_the_engine_has_no_requests(engine: Metrics, scrapes: int) -> None:
    done = wait(engine.server_port)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert engine.scrapes == scrapes


def test_the_pre_stop_hook_waits_for_requests_that_only_the_middleware_counts() -> None:
    with counts().requests.track_inprogress():
        waits = IDLE + generate_latest().decode()
    front = Front(transfer=KVTransfer(TransferRole.DECODE, "r1", "http://tiny-router.ns:8081", 512, 3.0))
    with serving_metrics([waits, waits, IDLE + generate_latest().decode()]) as engine:
        done = wait(engine.server_port, front=front)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert engine.scrapes == 3


@pytest.mark.parametrize(
    "engine",
    [((RUNNING,), 200), ((WAITING,), 200), (("",), 200), (("vllm:num_requests_running x",), 200), (("no",), 503)],
    ids=["running requests", "waiting requests", "empty response", "invalid metrics", "HTTP 503"],
    indirect=True,
)
def test_the_pre_stop_hook_ends_after_the_drain_timeout_while_the_engine_has_requests_or_does_not_answer(
    engine: Metrics,
) -> None:
    done = wait(engine.server_port, BUSY_SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert 1 < engine.scrapes <= BUSY_SECONDS / PERIOD_SECONDS


def test_the_pre_stop_hook_ends_at_once_where_no_engine_listens() -> None:
    with Metrics([IDLE], 200) as server:
        port = server.server_port
    done = wait(port, as_in_a_cluster=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
