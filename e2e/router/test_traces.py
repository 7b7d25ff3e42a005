"""A trace of a client, through real HAProxy and a real vLLM, into a real OpenTelemetry collector."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e import images
from e2e.images.detect import found_builder
from e2e.model.tiny_llama import model_folder
from e2e.router.collector import Collector
from e2e.router.loopback import Loopback
from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.engine import EngineSpec
from inference_operator.engines.process import Front, ServedModel, Timeouts
from inference_operator.engines.programs import KEY_ENTRY, KEY_FILE, PROGRAMS_VARIABLE, programs_text
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import SizingInputs

pytestmark = pytest.mark.full
SCRIPTS = Path(__file__).parents[1] / "model"
ADDRESS, PORT, MODEL = "127.0.54.1", 8000, "chat"
START_SECONDS = 600.0
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VARIABLES = {
    "grpc": (),
    "http": (EnvironmentVariable(name="OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", value="http/protobuf"),),
}


def job(engine: EngineSpec, traces: str, *, asks_for_key: bool = False) -> Mapping[str, Any]:
    """The command line and the variables of an engine as the operator writes them, with a collector in its settings."""
    timeouts = Timeouts(startup=int(START_SECONDS), dns_staleness=0, drain=0)
    plan, served = unchecked_plan(SizingInputs(1)), ServedModel("/model", MODEL)
    process = Vllm(port=PORT).process(engine, plan, served, timeouts, Front(traces=traces, asks_for_key=asks_for_key))
    env = {variable.name: variable.value for variable in process.env if variable.value is not None}
    env[PROGRAMS_VARIABLE] = programs_text(process.programs)
    return {"command": [*process.command, *process.args], "env": env}


@asynccontextmanager
async def vllm(folder: Path, engine: EngineSpec, traces: str = "", key: str = "") -> AsyncIterator[None]:
    """A vLLM that answers; it asks for a key, if one is given."""
    images.build(["tiny-llama"])
    (folder / "job.json").write_text(json.dumps(job(engine, traces, asks_for_key=bool(key))))
    volumes = {SCRIPTS: "/script:ro", model_folder(): "/model:ro", folder: "/data"}
    if key:
        (folder / KEY_ENTRY).write_text(key)
        volumes |= {folder / KEY_ENTRY: f"{KEY_FILE}:ro"}
    command = ("/opt/vllm/bin/python", "/script/run_served.py", "/data")
    run = asyncio.create_task(
        asyncio.to_thread(found_builder().run, "traced", images.reference("engine-cpu"), command, volumes)
    )
    try:
        await until_healthy(run, folder / "log")
        yield
    finally:
        (folder / "stop").touch()
        await run


def said(log: Path) -> str:
    """The last that an engine has printed."""
    return log.read_text()[-3000:] if log.exists() else ""


async def until_healthy(run: "asyncio.Task[None]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://{ADDRESS}:{PORT}/health"):
                    return
            except aiohttp.ClientError:
                assert not run.done(), said(log)
                assert time.monotonic() < deadline, said(log)
                await asyncio.sleep(0.5)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_collector_gets_a_span_of_vllm_that_continues_the_trace_of_the_client(
    protocol: str, loopback: Loopback, tmp_path: Path
) -> None:
    collector = await Collector.start(tmp_path)
    engine = EngineSpec(args=("--enforce-eager", f"--kv-cache-memory-bytes={64 * 2**20}"), env=VARIABLES[protocol])
    try:
        async with vllm(tmp_path, engine, collector.grpc if protocol == "grpc" else collector.http):
            loopback.engine_port = PORT
            loopback.names.addresses.append(ADDRESS)
            await loopback.start_router()
            await loopback.until_served(1)
            body = {"model": MODEL, "prompt": "Hello", "max_tokens": 5, "ignore_eos": True}
            headers = {"traceparent": f"00-{TRACE}-{SPAN}-01", "X-Request-Id": "client-7"}
            async with loopback.session.post(f"{loopback.url}/v1/completions", json=body, headers=headers) as answer:
                assert answer.status == 200, await answer.text()
            spans = await collector.until_spans(TRACE)
        assert SPAN in {span.parent for span in spans}
        assert any("client-7" in span.attributes for span in spans), spans
    finally:
        await collector.close()
