"""A real OpenTelemetry collector on loopback, which prints each span that it gets."""

import asyncio
import json
import re
import time
from asyncio.subprocess import Process, create_subprocess_exec
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.go_modules import ensure_collector
from e2e.helpers.free_ports import free_port

WAIT_SECONDS = 60.0
"""Far longer than an engine keeps its spans: 5 s (OTEL_BSP_SCHEDULE_DELAY in the OpenTelemetry specification)."""
POLL_SECONDS = 0.2
_FIELDS = {"trace": "Trace ID", "parent": "Parent ID", "name": "Name"}


@dataclass(frozen=True, slots=True)
class Span:
    """A span as the collector got it."""

    trace: str
    parent: str
    """ID of the span that it continues; empty for the first one of a trace."""
    name: str
    attributes: str
    """One line for each."""


@dataclass(frozen=True, slots=True)
class Collector:
    """A running collector."""

    grpc: str
    """URL for OTLP over gRPC."""
    http: str
    """URL for OTLP over HTTP."""
    process: Process
    log: Path

    @classmethod
    async def start(cls, folder: Path) -> "Collector":
        """Start it, and return once it receives."""
        grpc, http = (f"127.0.0.1:{free_port()}" for _ in range(2))
        file, log = folder / "collector.json", folder / "collector.log"
        file.write_text(json.dumps(_configuration(grpc, http)))
        command = await asyncio.to_thread(ensure_collector)
        with log.open("wb") as output:
            process = await create_subprocess_exec(command, f"--config={file}", stdout=output, stderr=output)
        started = cls(f"http://{grpc}", f"http://{http}/v1/traces", process, log)
        await started._until(lambda: "Everything is ready" in log.read_text())
        return started

    def spans(self, trace: str) -> Sequence[Span]:
        """What it has got of a trace."""
        texts = self.log.read_text().split("\nSpan #")[1:]
        found = (Span(**{key: _field(text, of) for key, of in _FIELDS.items()}, attributes=text) for text in texts)
        return [span for span in found if span.trace == trace]

    async def until_spans(self, trace: str) -> Sequence[Span]:
        """Wait until it has got a span of a trace."""
        await self._until(lambda: bool(self.spans(trace)))
        return self.spans(trace)

    async def _until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not true():
            assert time.monotonic() < deadline, self.log.read_text()  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """End it."""
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()


def _configuration(grpc: str, http: str) -> dict[str, object]:
    return {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": grpc}, "http": {"endpoint": http}}}},
        "exporters": {"debug": {"verbosity": "detailed"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["debug"]}},
        },
    }


def _field(text: str, name: str) -> str:
    found = re.search(rf"^ +{name} *: *(.*)$", text, re.MULTILINE)
    return found[1] if found else ""
