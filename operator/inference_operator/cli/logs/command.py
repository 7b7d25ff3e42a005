"""`infd logs`: the logs of a resource's engines or routers, merged and folded, the cause of a failure first."""

import argparse
import asyncio
import re
import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inference_operator.api.resource import Resource, resource
from inference_operator.cli.cluster_command import POLL_SECONDS, ClusterCommand, list_objects
from inference_operator.cli.live_resource import engine_of
from inference_operator.cli.output import dumped
from inference_operator.cli.parser import RefusedError, UsageError, harmless
from inference_operator.controller.cluster import NotFoundError, RejectedError
from inference_operator.diagnosis.pod_diagnosis import known_end, unknown_end
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.objects.names import NAME_LABEL, ROUTER, component_of, is_role
from inference_operator.views.pod import has_been_ready
from inference_operator.views.raw import mapping, objects
from inference_operator.views.untrusted_text import LOG_CHARACTERS, log_tail

NOISE = re.compile(
    r'"(?:GET|HEAD) /(?:health|ready|metrics|ping)[^"]*" (?:200|503)'  # uvicorn, HAProxy
    r"|\bGET /(?:health|metrics|slots)\b[^\n]* 200\b"  # llama-server
    r"|\d{1,3}%\|[^|]*\|\s*\d"  # tqdm
    r"|\d{1,3}% Completed \|"
)
_HAPROXY = re.compile(r"^\[(?:NOTICE|WARNING|ALERT)\]\s+\(\d+\) : ")
"""Before a message on standard error (HAProxy 3.2, `src/errors.c`)."""
_TWIN_LINES = 16
"""Lines of a container between a message and its twin: the two streams may overtake each other."""


@dataclass(frozen=True, slots=True)
class LogLine:
    at: str
    """Its time as the kubelet writes it (RFC 3339 with nanoseconds, in UTC), which sorts as text."""
    source: str
    """The pod, and the container where it has several."""
    text: str


def log_lines(log: str, source: str) -> Iterator[LogLine]:
    for line in log.split("\n"):
        at, _, text = line.partition(" ")
        if at:
            yield LogLine(at, source, harmless(text.rstrip("\r").rpartition("\r")[2]))


def merged(lines: Iterable[LogLine]) -> list[LogLine]:
    return sorted(lines, key=lambda one: one.at)


def is_noise(line: LogLine) -> bool:
    return NOISE.search(line.text) is not None


def tail(lines: Sequence[LogLine], count: int, *, verbose: bool) -> Sequence[LogLine]:
    """The end of a log that begins with the `count`-th last line which is no noise; fewer if there are not as many.

    Examples:
        >>> lines = [LogLine(str(at), "a", text) for at, text in enumerate(("x", "y", '"GET /health" 200', "z"))]
        >>> [one.text for one in tail(lines, 2, verbose=False)], tail(lines, 0, verbose=False)
        (['y', '"GET /health" 200', 'z'], [])
    """
    kept = [place for place, line in enumerate(lines) if verbose or not is_noise(line)]
    return lines[kept[-count] if len(kept) >= count else 0 :] if count else []


@dataclass(slots=True)
class Folding:
    verbose: bool = False
    left_out: int = 0
    _unmatched: dict[str, deque[tuple[bool, str]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_TWIN_LINES))
    )
    """The last messages of each container whose twin has not come: whether they have HAProxy's prefix, and the text."""
    _last: tuple[str, str] = ("", "")
    _repeats: int = 0

    def kept(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        for one in lines:
            if not self.verbose and is_noise(one):
                self.left_out += 1
            elif self.verbose or not self._is_twin(one):
                yield one

    def shown(self, lines: Iterable[LogLine]) -> Iterator[str]:
        for one in self.kept(lines):
            same = (one.source, one.text)
            if same == self._last and not self.verbose:
                self._repeats += 1
                continue
            yield from self.rest()
            self._last = same
            yield f"{one.source}  {one.text}"

    def _is_twin(self, line: LogLine) -> bool:
        text = _HAPROXY.sub("", line.text)
        has_prefix = text != line.text
        unmatched = self._unmatched[line.source]
        if (not has_prefix, text) in unmatched:
            unmatched.remove((not has_prefix, text))
            return True
        unmatched.append((has_prefix, text))
        return False

    def rest(self) -> Iterator[str]:
        if self._repeats:
            times = "time" if self._repeats == 1 else "times"
            yield f"{self._last[0]}  (the line before came {self._repeats:,} more {times})"
        self._repeats = 0


CAUSE_LINES = 500
"""Lines in which the cause of an end is looked for, as the operator does."""
FIRST_LINES, MORE = 1_000, 8
"""Lines of the first reading of a log, and by what each next one is longer: most lines may be those of probes, which
are left out before lines are counted."""


@dataclass(frozen=True, slots=True)
class Container:
    pod: str
    name: str
    has_run: bool
    source: str
    has_failed: bool = False
    """Whether its last run ended with an error of its own."""
    has_served: bool = False
    """Whether its pod is ready, or has been before."""
    role: str = ""


def containers(pods: Sequence[Manifest]) -> Iterator[Container]:
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
        name = str(pod["metadata"]["name"])
        started = [
            one
            for one in objects(mapping(pod, "status"), "containerStatuses")
            if "waiting" not in mapping(one, "state") or one.get("restartCount")
        ]
        for one in started:
            container, has_run = str(one.get("name") or ""), bool(one.get("restartCount"))
            source = f"{name}/{container}" if len(started) > 1 else name
            end = mapping(one, "lastState", "terminated")
            has_failed = bool(end.get("exitCode")) and end.get("reason") != "OOMKilled"
            yield Container(name, container, has_run, source, has_failed, has_been_ready(pod), component_of(pod))


def run(options: argparse.Namespace) -> int:
    if options.follow and options.output != "table":
        raise UsageError("--follow prints lines as they come: leave out --output.")

    async def read(cluster: KubeCluster, live: Manifest) -> int:
        return await _Reader(cluster, options, resource(live), options.engines or ENGINES).run()

    return ClusterCommand(options).run_for(options.name, read)


@dataclass(slots=True)
class _Reader:
    cluster: KubeCluster
    options: argparse.Namespace
    found: Resource
    engines: EngineRegistry
    seen: dict[str, str] = field(default_factory=dict)

    async def run(self) -> int:
        folding = Folding(verbose=self.options.verbose)
        found = await self._containers()
        if not found:
            raise RefusedError("No container has run yet. `infd status` shows what it waits for.")
        causes = [] if self.options.router else [cause async for cause in self._causes(found)]
        lines = merged(await self._lines(found))
        if self.options.output != "table":
            print(dumped({"causes": causes, "items": [*folding.kept(lines)]}, self.options.output))
            return 0
        _print(f"{cause}\n" for cause in causes)
        _print(folding.shown(lines))
        while self.options.follow:
            await asyncio.sleep(POLL_SECONDS)
            _print(folding.shown(merged(await self._lines(await self._containers()))))
        _print(folding.rest())
        if folding.left_out:
            print(f"Left out {folding.left_out:,} lines of probes and progress bars; -v shows them.", file=sys.stderr)
        return 0

    async def _containers(self) -> list[Container]:
        labels = f"{NAME_LABEL}={self.options.name}"
        pods = await list_objects(self.cluster, POD, self.options.namespace, labels)
        is_shown = (lambda component: component == ROUTER) if self.options.router else is_role
        return list(containers([pod for pod in pods if is_shown(component_of(pod))]))

    async def _lines(self, found: Sequence[Container]) -> list[LogLine]:
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
        path = f"{Ref(POD, self.options.namespace, one.pod).path}/log"
        query = {"container": one.name, "timestamps": "true", **window, **({"previous": "true"} if previous else {})}
        try:
            return await self.cluster.api.text(path, POD, query=query)
        except (NotFoundError, RejectedError):
            return ""

    async def _causes(self, found: Sequence[Container]) -> AsyncIterator[str]:
        """Why containers have ended, as far as their last runs tell: in the words of the status."""
        for one in found:
            window = {"tailLines": str(CAUSE_LINES)}
            log = await self._log(one, previous=True, window=window) if one.has_run else ""
            joined = "\n".join(line.text for line in log_lines(log, one.source))
            text = log_tail(joined, lines=CAUSE_LINES, size=LOG_CHARACTERS)
            engine = engine_of(self.found, self.engines, one.role)
            unknown = unknown_end(engine, text, has_served=one.has_served) if one.has_failed else None
            if cause := known_end(engine, "", text) or unknown:
                yield harmless(f"{one.source} ended: {cause.reason}: {cause.cause.rstrip('.')}.")


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line, flush=True)
