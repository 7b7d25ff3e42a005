"""A real Prometheus on loopback, and promtool."""

import asyncio
import json
import re
import socket
import subprocess
import time
from asyncio.subprocess import Process, create_subprocess_exec
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from e2e.go_modules import PROMETHEUS, PROMTOOL, ensure_prometheus
from generators.engine_rules import RULES

SCRAPE_SECONDS = 0.25
START_SECONDS = 60.0
POLL_SECONDS = 0.2

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "monitoring.md"

Jobs = Sequence[Mapping[str, Any]]
"""Entries of `scrape_configs`."""
Series = Sequence[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, slots=True)
class Target:
    """A page to scrape, and the labels that the PodMonitors of the chart give to its series."""

    address: str
    labels: Mapping[str, str]
    path: str = "/metrics"
    parameters: Mapping[str, Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus with the chart's rules."""

    url: str
    process: Process
    session: aiohttp.ClientSession
    log: Path

    @classmethod
    async def start(
        cls,
        folder: Path,
        jobs: Jobs,
        session: aiohttp.ClientSession,
        *,
        seconds: float = SCRAPE_SECONDS,
        rules: Path = RULES,
    ) -> "Prometheus":
        """Start it, and return once it answers.

        Args:
            folder: for its configuration and its data.
            jobs: what it scrapes: `static_jobs`, or those of the docs (`documented_jobs`).
            session: for queries.
            seconds: time between two scrapes.
            rules: recording rules and alerts; those of the chart unless said otherwise.
        """
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        configuration, log = folder / "prometheus.json", folder / "prometheus.log"
        configuration.write_text(json.dumps(configured(jobs, seconds, rules)))
        command = await asyncio.to_thread(ensure_prometheus)
        arguments = (
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        )
        with log.open("wb") as output:
            process = await create_subprocess_exec(command / PROMETHEUS, *arguments, stdout=output, stderr=output)
        started = cls(f"http://{address}", process, session, log)
        await started.until_ready()
        return started

    async def until_ready(self) -> None:
        """Wait until it answers queries."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                async with self.session.get(f"{self.url}/-/ready") as answer:
                    if answer.ok:
                        return
            except aiohttp.ClientError:
                pass
            assert time.monotonic() < deadline, self.log.read_text()  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def query(self, text: str) -> Series:
        """The labels and the value of each series; fails if the query is invalid."""
        async with self.session.get(f"{self.url}/api/v1/query", params={"query": text}) as answer:
            content = await answer.json()
        assert content["status"] == "success", (text, content)  # noqa: S101 - a test's helper
        data = content["data"]
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    async def values(self, label: str, series: str) -> Sequence[str]:
        """The values that a label has in some series, as Grafana asks for what a variable offers."""
        url = f"{self.url}/api/v1/label/{label}/values"
        async with self.session.get(url, params={"match[]": series}) as answer:
            found: Sequence[str] = (await answer.json())["data"]
        return found

    async def until(self, text: str, wanted: float) -> None:
        """Wait until a query has one series with this value."""
        deadline = time.monotonic() + START_SECONDS
        while not (found := await self.query(text)) or [value for _, value in found] != [wanted]:
            assert time.monotonic() < deadline, (text, found)  # noqa: S101 - a test's helper
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """End it."""
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool; the caller judges its exit status."""
    command = ensure_prometheus() / PROMTOOL
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=False)


def static_jobs(targets: Sequence[Target]) -> Jobs:
    """A job for each target."""
    return [
        {
            "job_name": f"target-{number}",
            "metrics_path": target.path,
            "params": dict(target.parameters or {}),
            "static_configs": [{"targets": [target.address], "labels": dict(target.labels)}],
        }
        for number, target in enumerate(targets)
    ]


def documented_jobs(kubeconfig: Path) -> Jobs:
    """The jobs of docs/how-to/monitoring.md, which find pods by the API server of a kubeconfig."""
    (block,) = re.findall(r"```yaml\nscrape_configs:\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    jobs: list[dict[str, Any]] = yaml.safe_load(block)
    for job in jobs:
        job["kubernetes_sd_configs"] = [
            {**found, "kubeconfig_file": str(kubeconfig)} for found in job["kubernetes_sd_configs"]
        ]
    return jobs


def configured(jobs: Jobs, seconds: float = SCRAPE_SECONDS, rules: Path = RULES) -> dict[str, object]:
    """Its configuration: these jobs, each page scraped once in so many seconds, and rules."""
    interval = f"{int(1000 * seconds)}ms"
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": list(jobs),
    }


def written(path: Path, content: object) -> Path:
    """A YAML file."""
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path
