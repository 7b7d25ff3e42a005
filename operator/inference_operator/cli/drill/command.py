"""`infd drill`: numbered requests, one fault after the other, and the verdict."""

import argparse
import asyncio
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from random import Random, SystemRandom
from textwrap import TextWrapper

from aiohttp import BaseConnector, ClientError, UnixConnector

from inference_operator.api.model_gateway import ModelGatewaySpec
from inference_operator.api.resource import Resource, resource
from inference_operator.api.spec import Spec
from inference_operator.cli.chat.client import ready_ports, served_model, service_key
from inference_operator.cli.chat.command import cannot_answer, no_ready_engine
from inference_operator.cli.cluster_command import ClusterCommand, is_agreed
from inference_operator.cli.drill import DRILLED, RATE
from inference_operator.cli.drill.faults import DrilledService, NotHealedError, ObstacleError, Pods, obstacle
from inference_operator.cli.drill.load import Connectors, LoadPhase, NumberedLoad, tcp
from inference_operator.cli.drill.promises import PROMISES, Fault, Limits
from inference_operator.cli.drill.report import (
    DrillReport,
    FaultRecord,
    Skipped,
    is_proven,
    page,
    report_of,
    verdict,
    verdict_words,
)
from inference_operator.cli.gateway.command import Gateway, gateway_before
from inference_operator.cli.operator_settings import operator_of
from inference_operator.cli.options import SYSTEM_NAMESPACE, file_text
from inference_operator.cli.output import document, dumped
from inference_operator.cli.parser import EXIT_REFUSED, RefusedError, UsageError, harmless
from inference_operator.cli.plan.cluster import operators
from inference_operator.controller.cluster import ClusterError, ForbiddenError
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.port_forward import PortForward
from inference_operator.kube.proxy import in_cluster
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.objects.names import NAME_LABEL, ROUTER, answers_clients, component_of
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.router.waiting import COLD_START_STEPS
from inference_operator.sizing.serving import Load as MeanLoad
from inference_operator.sizing.serving import serving_of_plan
from inference_operator.sizing.shape import Objective
from inference_operator.views.workload import WORKLOAD_KINDS

TOKENS = 64
"""Of each answer: it takes a second or more on most engines, so that faults hit streams in the middle."""
PROMPT_TOKENS = 16
CALM_SECONDS = 5.0
"""Without a fault, before the first one and after each: what comes late shows, and has a span of its own."""
PATIENCE_SECONDS = 60.0
"""A client waits so much longer than routers hold a request."""
LOG_SECONDS = 120
"""How far back a log is read for the IDs of errors, which are looked for as they come: routers end with their logs."""
INDENT = " " * 6
WIDTH = 120


def run(options: argparse.Namespace) -> int:
    if options.judge:
        return _print_report(report_of(file_text(options.judge)), options.output)
    if not options.yes and not sys.stdin.isatty():
        raise UsageError("It causes faults in a live service. Add --yes, because there is no terminal to ask at.")

    async def work(cluster: KubeCluster, live: Manifest) -> int:
        with _ended_by_signals():
            return await _drill(cluster, live, options)

    return ClusterCommand(options, interrupted="Interrupted. What the drill has begun is taken back.").run_for(
        options.name, work
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A closed terminal and a SIGTERM end the work as Ctrl-C does, with what it takes back."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGHUP, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel if task else lambda: None)
    try:
        yield
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
    finally:
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.remove_signal_handler(number)


@dataclass(frozen=True, slots=True)
class Intent:
    found: Resource
    pods: Pods
    seed: int
    rate: float
    carried: float | None
    """Requests per second that one engine carries by its plan; None if that is not known."""
    faults: Sequence[Fault]
    skipped: Sequence[Skipped]
    gateway: Gateway | None
    url: str
    """That of the command line; empty: the drill finds it."""

    @property
    def route(self) -> str:
        through = f"the gateway {self.gateway.key.name}" if self.gateway else ""
        if self.url:
            return f"to {self.url}{f', which is to be {through}' if through else ''}"
        return f"{'' if in_cluster() else 'through the API server '}to {through or 'its own address'}"

    @property
    def limits(self) -> Limits:
        """What the service sets, and the gateway before it, which ends answers too."""
        assert isinstance(self.found.spec, Spec), "a service with ready engines"  # noqa: S101 - for the type
        own, before = limits_of(self.found.spec), self.gateway.spec if self.gateway else None
        if not isinstance(before, ModelGatewaySpec):
            return own
        return replace(own, drain=min(own.drain, before.drain_timeout.total_seconds()))

    def words(self) -> Sequence[str]:
        key, engines, routers = self.found.key, len(self.pods.serving), len(self.pods.ready_routers)
        carried = f"about {self.carried:.2g} of them" if self.carried else "an unknown number of them"
        load = f"{self.rate:g} requests/s of {TOKENS} tokens {self.route}, beside real traffic; "
        return [
            f"Drill of {key.namespace}/{key.name} ({engines} engines, {routers} routers), seed {self.seed}:",
            f"  load: {load}one engine carries {carried}",
            *(f"  {one}: {PROMISES[one].title}; may be lost: {PROMISES[one].may_be_lost}" for one in self.faults),
            *(f"  not {one.fault}: {one.why}" for one in self.skipped),
            "Users may get slower answers, and a fault that does not heal may cost more.",
        ]


async def _drill(cluster: KubeCluster, live: Manifest, options: argparse.Namespace) -> int:
    found = resource(live)
    if problem := cannot_answer(found):
        raise RefusedError(problem)
    seed = SystemRandom().randrange(10**6) if options.seed is None else options.seed
    random = Random(seed)  # noqa: S311 - which pods to choose
    gateway, no_gateway = await _gateway(cluster, found, options)
    system = operator_of(await operators(cluster) or (), found.key.namespace)
    service = DrilledService(
        cluster,
        Ref.of(live),
        random,
        system=system["metadata"]["namespace"] if system else SYSTEM_NAMESPACE,
        limit_seconds=options.heal_timeout,
        interrupts=options.yes_interrupt,
        gateway=gateway.key.name if gateway else "",
    )
    pods = await service.pods()
    if not pods.serving:
        raise RefusedError(no_ready_engine(found.key.name))
    faults, skipped = [], []
    for fault in options.faults or DRILLED:
        why = no_gateway if fault is Fault.ROLL_GATEWAY else ""
        why = why or obstacle(fault, live, pods, interrupts=options.yes_interrupt) or await service.missing_right(fault)
        (skipped.append(Skipped(fault, why)) if why else faults.append(fault))
    random.shuffle(faults)
    carried = await _carried(cluster, found)
    rate, through = rate_of(options.rate, carried), gateway if Fault.ROLL_GATEWAY in faults else None
    intent = Intent(found, pods, seed, rate, carried, faults, skipped, through, options.url)
    _say(intent, options)
    if not faults:
        raise RefusedError("There is no fault that may be caused.")
    if not options.yes and not await is_agreed("Go on?"):
        raise RefusedError("Nothing was done.")
    report = await _Drill(cluster, service, intent, options).report()
    return _print_report(report, options.output)


def _say(intent: Intent, options: argparse.Namespace) -> None:
    said = sys.stdout if options.output == "table" else sys.stderr
    columns = shutil.get_terminal_size((WIDTH, 0)).columns
    wrapper = TextWrapper(columns, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)
    for line in map(harmless, intent.words()):
        print(wrapper.fill(line), file=said, flush=True)


async def _gateway(cluster: KubeCluster, found: Resource, options: argparse.Namespace) -> tuple[Gateway | None, str]:
    """The gateway before a service, or why there is none whose pods may be replaced."""
    if options.url and not options.faults:
        return None, "--url may lead past it. Name it in --faults if the URL is that of the gateway."
    if options.faults and Fault.ROLL_GATEWAY not in options.faults:
        return None, ""
    return await gateway_before(cluster, found.key, options.model or served_model(found))


def _print_report(report: DrillReport, form: str) -> int:
    judged = verdict(report)
    if form != "table":
        print(dumped(document(report) | {"verdict": verdict_words(report, judged)}, form))
    else:
        columns = shutil.get_terminal_size((WIDTH, 0)).columns
        print(*page(report, judged, columns), sep="\n")
    return 0 if is_proven(report, judged) else EXIT_REFUSED


def rate_of(asked: float | None, carried: float | None) -> float:
    """The rate of requests; raises `RefusedError` if one engine alone would be overloaded."""
    if asked is None:
        return RATE if carried is None else float(f"{min(RATE, carried / 2):.2g}")
    if carried is not None and asked > carried:
        raise RefusedError(
            f"--rate {asked:g} would overload one engine, which carries about {carried:.2g} such requests/s by its"
            " plan, while others are missing. Choose less."
        )
    return asked


async def _carried(cluster: KubeCluster, found: Resource) -> float | None:
    """The requests of a drill per second that one engine carries by its plan; None if it does not tell."""
    labels = f"{NAME_LABEL}={found.key.name}"
    objective = Objective.requested(found.spec.autoscaling if isinstance(found.spec, Spec) else None)
    load = MeanLoad(PROMPT_TOKENS, TOKENS)
    with suppress(ForbiddenError):
        for kind in WORKLOAD_KINDS:
            async for workload in cluster.each(kind, namespace=found.key.namespace, labels=labels):
                pinned = PLAN_ANNOTATION.read(workload) if answers_clients(component_of(workload)) else None
                if pinned and (engine := serving_of_plan(pinned.plan)):
                    return engine.best(load, engine.attainable(load, objective))[0].requests
    return None


def limits_of(spec: Spec) -> Limits:
    cold = spec.router.cold_start.timeout
    held = cold.total_seconds() if cold else COLD_START_STEPS[0]
    return Limits(spec.drain_timeout.total_seconds(), min(held, spec.router.queue.timeout.total_seconds()))


@dataclass(slots=True)
class _Drill:
    cluster: KubeCluster
    service: DrilledService
    intent: Intent
    options: argparse.Namespace
    records: list[FaultRecord] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    """Faults that met an obstacle when their turn came."""
    unlogged: set[str] = field(default_factory=set)
    seen: int = 0
    """Answers whose IDs were looked for."""
    logs: str = ""

    async def report(self) -> DrillReport:
        intent, found = self.intent, self.intent.found
        limits, began = intent.limits, datetime.now(UTC)
        async with self._load(limits) as load:
            origin = time.monotonic()
            phase = LoadPhase(rate=intent.rate)
            sending = asyncio.create_task(load.send(phase))
            looking = asyncio.create_task(self._look(phase))
            try:
                await self._faults(origin)
                phase.stopped = True
                await sending
            finally:
                for task in (sending, looking):
                    task.cancel()
                await asyncio.gather(sending, looking, return_exceptions=True)
                await self.service.tidy()
            await self._look_once(phase)
        done = {*(one.fault for one in self.records), *(one.fault for one in self.skipped)}
        late = [Skipped(fault, "the time was over.") for fault in intent.faults if fault not in done]
        return DrillReport(
            namespace=found.key.namespace,
            name=found.key.name,
            seed=intent.seed,
            began=began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            rate=intent.rate,
            limits=limits,
            sent=phase.sent,
            answers=[one.since(origin) for one in phase.answers],
            faults=self.records,
            skipped=[*intent.skipped, *self.skipped, *late],
            unlogged=sorted(self.unlogged),
            logs=self.logs,
            route=intent.route,
        )

    async def _faults(self, origin: float) -> None:
        """Cause the faults in turn, with calm between them; none after one that did not heal."""
        await asyncio.sleep(CALM_SECONDS)
        for fault in self.intent.faults:
            begin = time.monotonic() - origin
            if begin > self.options.seconds:
                return
            try:
                record = FaultRecord(fault, begin, begin, await self.service.cause(fault))
            except ObstacleError as error:
                self.skipped.append(Skipped(fault, str(error)))
                print(harmless(f"not {fault}: {error}"), file=sys.stderr, flush=True)
                continue
            except NotHealedError as error:
                record = FaultRecord(fault, begin, begin, "not as it should be", str(error))
            record = replace(record, end=time.monotonic() - origin)
            self.records.append(record)
            took = f"{fault}: {record.what}, {record.problem or 'healed'} after {record.end - begin:.0f} s"
            print(harmless(took), file=sys.stderr, flush=True)
            await asyncio.sleep(CALM_SECONDS)
            if record.problem:
                return

    @asynccontextmanager
    async def _load(self, limits: Limits) -> AsyncIterator[NumberedLoad]:
        """The load, once the service has answered a question without it."""
        found, options = self.intent.found, self.options
        key = await service_key(self.cluster, self.intent.gateway or found, options.key_from)
        async with self._way() as (url, connectors):
            load = NumberedLoad(
                url,
                options.model or served_model(found),
                request_seconds=limits.hold + limits.drain + PATIENCE_SECONDS,
                headers={"Authorization": f"Bearer {key}"} if key else {},
                connectors=connectors,
                run=f"drill-{self.intent.seed}-{found.uid[:8]}",
                tokens=TOKENS,
            )
            try:
                await load.learn_traits()
            except (ClientError, OSError, TimeoutError) as error:
                raise RefusedError(
                    f"{found.key.name} does not answer a first request {self.intent.route}: {error}"
                ) from error
            yield load

    @asynccontextmanager
    async def _way(self) -> AsyncIterator[tuple[str, Connectors]]:
        """The URL of the service, and what connects to it: through the API server, each request has a connection."""
        found, gateway = self.intent.found, self.intent.gateway
        if url := self.options.url or ((gateway or found).status.url if in_cluster() else ""):
            yield url.rstrip("/").removesuffix("/v1"), tcp
            return

        ready = partial(ready_ports, self.cluster, gateway or found)
        async with PortForward(self.cluster.api, found.key.namespace, ready, lists_each_time=True) as forward:

            def connectors(_: bool) -> BaseConnector:  # noqa: FBT001 - a `Connectors`
                return UnixConnector(str(forward.path), limit=0, force_close=True)

            yield f"http://{found.key.name}", connectors

    async def _look(self, phase: LoadPhase) -> None:
        while True:
            await asyncio.sleep(1)
            await self._look_once(phase)

    async def _look_once(self, phase: LoadPhase) -> None:
        new, self.seen = phase.answers[self.seen :], len(phase.answers)
        failed = (one for one in new if (one.status or 0) >= HTTPStatus.BAD_REQUEST)
        self.unlogged |= {one.request_id for one in failed if one.request_id}
        if not self.unlogged:
            return
        key = self.intent.found.key
        try:
            pods = await self.service.pods()
            for pod in (*pods.routers, *pods.gateways):
                path = f"{Ref(POD, key.namespace, pod.name).path}/log"
                query = {"container": ROUTER, "sinceSeconds": str(LOG_SECONDS)}
                text = await self.cluster.api.text(path, POD, query=query)
                self.unlogged = {one for one in self.unlogged if one not in text}
        except ForbiddenError:
            self.logs = "the IDs of errors in routers' logs, which needs the right to get pods/log"
            self.unlogged.clear()
        except ClusterError:
            return  # the next look will do
