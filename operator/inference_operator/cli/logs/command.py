"""`infd logs`: the logs of a resource's engines or routers, merged, the cause of a failure first."""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inference_operator.api.resource import resource
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.live_resource import engine_of
from inference_operator.cli.log_lines import Folding, LogLine, log_lines, merged, tail
from inference_operator.cli.parser import EXIT_REFUSED
from inference_operator.controller.cluster import NotFoundError, RejectedError
from inference_operator.diagnosis.engine_end import known_end, unknown_end
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.objects.names import ENGINE, ROUTER, selector_text
from inference_operator.views.pod import has_been_ready
from inference_operator.views.raw import mapping, objects
from inference_operator.views.untrusted_text import LOG_CHARACTERS, log_tail

CAUSE_LINES = 500
"""Lines in which the cause of an end is looked for, as the operator does."""
FIRST_LINES, MORE = 1_000, 8
"""Lines of the first reading of a log, and by what each next one is longer: most lines may be those of probes, which
are left out before lines are counted."""
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod whose log can be read."""

    pod: str
    name: str
    has_run: bool
    """Whether it has a former run."""
    source: str
    """Its name before each line."""
    has_failed: bool = False
    """Whether its last run ended with an error of its own."""
    has_served: bool = False
    """Whether its pod is ready, or has been before."""


def containers(pods: Sequence[Manifest]) -> Iterator[Container]:
    """The containers that run, or have run, of pods in the order of their names."""
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
        name = str(pod["metadata"]["name"])
        started = [
            one
            for one in objects(mapping(pod, "status"), "containerStatuses")
            if "waiting" not in mapping(one, "state") or one.get("restartCount")
        ]
        for one in started:
            container = str(one.get("name") or "")
            source = f"{name}/{container}" if len(started) > 1 else name
            yield Container(
                name, container, bool(one.get("restartCount")), source, _has_failed(one), has_been_ready(pod)
            )


def _has_failed(status: Manifest) -> bool:
    ended = mapping(mapping(status, "lastState"), "terminated")
    return bool(ended.get("exitCode")) and ended.get("reason") != "OOMKilled"


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    """Print the logs; returns 1 if there are none."""

    async def read(api: Api, cluster: KubeCluster, live: Manifest) -> int:
        return await _Reader(api, cluster, options, engine_of(resource(live), engines)).run()

    return ClusterCommand(options).run_for(options.name, read)


@dataclass(slots=True)
class _Reader:
    """Reads and prints."""

    api: Api
    cluster: KubeCluster
    options: argparse.Namespace
    engine: Engine
    seen: dict[str, str] = field(default_factory=dict)
    """The time of the last line of each container."""

    async def run(self) -> int:
        folding = Folding(verbose=self.options.verbose)
        found = await self._containers()
        if not found:
            print("No container has run yet. `infd status` shows what it waits for.", file=sys.stderr)
            return EXIT_REFUSED
        if not self.options.router:
            await self._print_causes(found)
        _print(folding.shown(merged(await self._lines(found))))
        while self.options.follow:
            await asyncio.sleep(POLL_SECONDS)
            _print(folding.shown(merged(await self._lines(await self._containers()))))
        _print(folding.rest())
        if folding.left_out:
            print(f"Left out {folding.left_out:,} lines of probes and progress bars; -v shows them.", file=sys.stderr)
        return 0

    async def _containers(self) -> list[Container]:
        labels = selector_text(self.options.name, ROUTER if self.options.router else ENGINE)
        pods = self.cluster.each(POD, namespace=self.options.namespace, labels=labels)
        return list(containers([pod async for pod in pods]))

    async def _lines(self, found: Sequence[Container]) -> list[LogLine]:
        """The lines since the last reading."""
        new: list[LogLine] = []
        for one in found:
            last = self.seen.get(one.source, "")
            if last:
                text = await self._log(one, previous=self.options.previous, window={"sinceTime": last})
                lines: Sequence[LogLine] = [line for line in log_lines(text, one.source) if line.at > last]
            else:
                lines = await self._end(one)
            self.seen[one.source] = max([last, *(line.at for line in lines)])
            new += lines if last else self._tail(lines)
        return new

    def _tail(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        """The lines that --tail asks for."""
        count = self.options.tail
        return lines if count < 0 else tail(lines, count, verbose=self.options.verbose)

    async def _end(self, one: Container) -> Sequence[LogLine]:
        """The end of a log, with the lines that --tail asks for, or all of it."""
        size = max(FIRST_LINES, self.options.tail)
        while True:
            window = {} if self.options.tail < 0 else {"tailLines": str(size)}
            lines = list(log_lines(await self._log(one, previous=self.options.previous, window=window), one.source))
            if not window or len(lines) < size or len(self._tail(lines)) < len(lines):
                return lines
            size *= MORE

    async def _log(self, one: Container, *, previous: bool, window: Mapping[str, str]) -> str:
        """A part of a log; empty where there is none."""
        path = f"{Ref(POD, self.options.namespace, one.pod).path}/log"
        query = {"container": one.name, "timestamps": "true", **window, **({"previous": "true"} if previous else {})}
        try:
            return await self.api.text(path, POD, query=query)
        except (NotFoundError, RejectedError):
            return ""

    async def _print_causes(self, found: Sequence[Container]) -> None:
        """Print why containers have ended, as far as their last runs tell: in the words of the status."""
        for one in found:
            window = {"tailLines": str(CAUSE_LINES)}
            log = await self._log(one, previous=True, window=window) if one.has_run else ""
            joined = "\n".join(line.text for line in log_lines(log, one.source))
            text = log_tail(joined, lines=CAUSE_LINES, size=LOG_CHARACTERS)
            unknown = unknown_end(self.engine, text, has_served=one.has_served) if one.has_failed else None
            if cause := known_end(self.engine, "", text) or unknown:
                print(f"{one.source} ended: {cause.reason}: {cause.cause.rstrip('.')}.\n")


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line, flush=True)
