"""The faults of `infd drill`: what each needs, how it is caused, and when it has healed.

Nothing of them stays: pods are deleted or evicted, rollouts are those of `infd restart`, that of a gateway is what
`kubectl rollout restart` does, and fewer engines are an annotation with a deadline that the operator keeps
(`api/drill.py`).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from http import HTTPStatus
from random import Random

from inference_operator.admission.rights import Right
from inference_operator.api.drill import DRILL_ANNOTATION, Drill
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.cli.cluster_command import POLL_SECONDS, list_objects, live_of
from inference_operator.cli.doctor.reading import may
from inference_operator.cli.drill.promises import Fault
from inference_operator.cli.edit.command import edited
from inference_operator.cli.edit.edits import PAUSED, RESTART, is_paused
from inference_operator.cli.live_resource import pods_of
from inference_operator.cli.managed_fields import FIELD_MANAGER, applied_edit
from inference_operator.cli.operator_settings import SELECTOR
from inference_operator.cli.options import SYSTEM_NAMESPACE
from inference_operator.cli.parser import RefusedError
from inference_operator.controller.cluster import ClusterError, NotFoundError
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import DEPLOYMENT, INFERENCE_DEPLOYMENT, POD, Manifest, Ref
from inference_operator.objects.names import (
    GATEWAY,
    NAME_LABEL,
    ROUTER,
    answers_clients,
    is_role,
    selector_text,
    workload_name,
)
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.pod import PodView, pod_view

_PATCH = Right("patch", INFERENCE_DEPLOYMENT.plural, INFERENCE_DEPLOYMENT.group)
RIGHTS: Mapping[Fault, Sequence[Right]] = {
    Fault.ROLL_ENGINES: (_PATCH,),
    Fault.ROLL_ROUTERS: (_PATCH,),
    Fault.DELETE_ENGINE: (Right("delete", "pods"),),
    Fault.DELETE_ROUTER: (Right("delete", "pods"),),
    Fault.END_OPERATOR: (Right("list", "pods"), Right("delete", "pods")),
    Fault.DRAIN_NODE: (Right("create", "pods/eviction"),),
    Fault.SCALE_DOWN: (_PATCH,),
    Fault.TO_ZERO: (_PATCH,),
    Fault.ROLL_GATEWAY: tuple(Right(verb, DEPLOYMENT.plural, DEPLOYMENT.group) for verb in ("get", "patch")),
}
"""Of the operator's namespace for its end, otherwise of the resource's."""
OF_ENGINES = frozenset({Fault.ROLL_ENGINES, Fault.DELETE_ENGINE, Fault.DRAIN_NODE, Fault.SCALE_DOWN})
OF_ROUTERS = frozenset({Fault.ROLL_ROUTERS, Fault.DELETE_ROUTER, Fault.DRAIN_NODE})
OF_GATEWAYS = frozenset({Fault.ROLL_GATEWAY, Fault.DRAIN_NODE})
SEVERAL = 2
RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""The annotation of `kubectl rollout restart` (Kubernetes 1.36, kubectl/pkg/polymorphichelpers/objectrestarter.go)."""
DRILL_MANAGER = f"{FIELD_MANAGER}-drill"
ASK_SECONDS = 60.0
"""Deadline of fewer engines, which is put off again and again: a drill that is killed leaves them for this long."""
DOWN_SECONDS = 5.0
"""How long there are fewer engines after the last one has ended."""


@dataclass(frozen=True, slots=True)
class Pods:
    engines: Sequence[EngineView]
    """Also those that compute prompts for the others."""
    routers: Sequence[PodView]
    gateways: Sequence[PodView] = ()

    @property
    def answering(self) -> Sequence[EngineView]:
        return [one for one in self.engines if answers_clients(one.component)]

    @property
    def serving(self) -> Sequence[EngineView]:
        return [one for one in self.answering if one.is_serving]

    @property
    def ready_routers(self) -> Sequence[PodView]:
        return [pod for pod in self.routers if pod.is_serving]

    @property
    def ready_gateways(self) -> Sequence[PodView]:
        return [pod for pod in self.gateways if pod.is_serving]

    @property
    def all(self) -> Sequence[PodView]:
        return [*(pod for one in self.engines for pod in one.pods), *self.routers, *self.gateways]


def obstacle(fault: Fault, live: Manifest, pods: Pods, *, interrupts: bool) -> str:
    return next(_obstacles(fault, live, pods, interrupts=interrupts), "")


def _obstacles(fault: Fault, live: Manifest, pods: Pods, *, interrupts: bool) -> Iterator[str]:
    engines, routers = len(pods.serving), len(pods.ready_routers)
    edit = {Fault.ROLL_ENGINES: RESTART["engines"], Fault.ROLL_ROUTERS: RESTART["routers"]}.get(fault)
    if is_paused(live) and fault not in {Fault.END_OPERATOR, Fault.ROLL_GATEWAY}:
        yield PAUSED
    if edit and (why := edit.forbids(live)):
        yield why.partition("\n")[0]
    if fault in {Fault.ROLL_ROUTERS, Fault.DELETE_ROUTER} and not routers:
        yield "no router is ready."
    if fault is Fault.ROLL_GATEWAY and not pods.ready_gateways:
        yield "no pod of the gateway is ready."
    if fault is Fault.SCALE_DOWN and engines < SEVERAL:
        yield "it needs two engines."
    if fault is Fault.DRAIN_NODE and (engines < SEVERAL or routers == 1):
        yield "a budget keeps the only one until its node is cordoned, and the drill cordons no node."
    if not interrupts:
        yield from _interruptions(fault, pods)


def _interruptions(fault: Fault, pods: Pods) -> Iterator[str]:
    numbers = (
        ("a service of one engine", OF_ENGINES, len(pods.serving)),
        ("a service of one router", OF_ROUTERS, len(pods.ready_routers)),
        ("a gateway of one pod", OF_GATEWAYS, len(pods.ready_gateways) if pods.gateways else SEVERAL),
    )
    for what, among, number in numbers:
        if fault in among and number < SEVERAL:
            yield f"it interrupts {what}. --yes-interrupt causes it."
    if fault is Fault.TO_ZERO:
        yield "requests wait until an engine has started. --yes-interrupt causes it."


class NotHealedError(Exception):
    """A fault was not caused, or has not healed; the message is for the user."""


class ObstacleError(Exception):
    """A fault is not caused, since the service is no longer what it was when the drill began; the message says why."""


@dataclass(frozen=True, slots=True)
class DrilledService:
    cluster: KubeCluster
    ref: Ref
    random: Random
    _: KW_ONLY
    limit_seconds: float
    """How long a fault may take to heal."""
    system: str = SYSTEM_NAMESPACE
    interrupts: bool = False
    gateway: str = ""
    """The name of the gateway before it; empty: there is none."""

    def _causes(self, pods: Pods) -> Mapping[Fault, Callable[[], Awaitable[str]]]:
        return {
            Fault.ROLL_ENGINES: lambda: self._roll("engines", [pod for one in pods.engines for pod in one.pods]),
            Fault.ROLL_ROUTERS: lambda: self._roll("routers", pods.routers),
            Fault.DELETE_ENGINE: lambda: self._delete([one.leader for one in pods.serving]),
            Fault.DELETE_ROUTER: lambda: self._delete(pods.ready_routers),
            Fault.END_OPERATOR: self._end_operator,
            Fault.DRAIN_NODE: lambda: self._drain(pods),
            Fault.SCALE_DOWN: lambda: self._with_fewer(len(pods.serving) - 1),
            Fault.TO_ZERO: lambda: self._with_fewer(0),
            Fault.ROLL_GATEWAY: lambda: self._roll_gateway(pods.gateways),
        }

    async def _live(self) -> Manifest:
        return await live_of(self.cluster, self.ref.namespace, self.ref.name)

    async def missing_right(self, fault: Fault) -> str:
        namespace = self.system if fault is Fault.END_OPERATOR else self.ref.namespace
        for right in RIGHTS[fault]:
            if not await may(self.cluster, right, namespace):
                return f"you have no right to {right} in the namespace `{namespace}`."
        return ""

    async def pods(self) -> Pods:
        namespace, of_gateway = self.ref.namespace, selector_text(self.gateway, GATEWAY)
        views = await pods_of(self.cluster, namespace, f"{NAME_LABEL}={self.ref.name}")
        gateways = await pods_of(self.cluster, namespace, of_gateway) if self.gateway else ()
        engines = engines_of(pod for pod in views if is_role(pod.component))
        return Pods(engines, [pod for pod in views if pod.component == ROUTER], gateways)

    async def cause(self, fault: Fault) -> str:
        """Cause a fault, and wait until it has healed; returns what was done.

        Raises:
            NotHealedError: it was not caused, or has not healed in time.
            ObstacleError: it may not be caused now; autoscaling may have removed engines since the drill began.
        """
        try:
            before, live = await self.pods(), await self._live()
            if why := obstacle(fault, live, before, interrupts=self.interrupts):
                raise ObstacleError(why)
            what = await self._causes(before)[fault]()
            await self._await_as_before(before, resource(live).spec)
        except (ClusterError, RefusedError) as error:
            raise NotHealedError(getattr(error, "cause", str(error))) from error
        return what

    async def tidy(self) -> None:
        """Take back what is left of a fault that was interrupted; the operator does so at the deadline."""
        with suppress(ClusterError, RefusedError):
            live = await self._live()
            if DRILL_ANNOTATION in resource(live).annotations:
                await edited(self.cluster, applied_edit(live, {}), DRILL_MANAGER)

    async def _await_as_before(self, before: Pods, spec: Spec | Refusal) -> None:
        scaling = spec.autoscaling if isinstance(spec, Spec) else None
        engines = min(len(before.serving), max(1, scaling.min_replicas)) if scaling else len(before.serving)
        routers, gateways = len(before.ready_routers), len(before.ready_gateways)

        def healed(now: Pods) -> bool:
            ready = len(now.ready_routers) >= routers and len(now.ready_gateways) >= gateways
            return ready and len(now.serving) >= engines and not any(pod.terminating for pod in now.all)

        also = f", and {gateways} pods of the gateway" if gateways else ""
        await self._await(healed, f"{engines} engines and {routers} routers are ready again{also}")

    async def _await(self, is_so: Callable[[Pods], bool], what: str) -> None:
        async def look() -> bool:
            return is_so(await self.pods())

        await self._until(look, f"not within {self.limit_seconds:g} s: {what}")

    async def _until(self, look: Callable[[], Awaitable[bool]], failure: str) -> None:
        """Look again and again; an API server that does not answer for a while ends no wait."""
        deadline = time.monotonic() + self.limit_seconds
        while True:
            with suppress(ClusterError):
                if await look():
                    return
            if time.monotonic() > deadline:
                raise NotHealedError(failure)
            await asyncio.sleep(POLL_SECONDS)

    async def _await_gone(self, gone: Collection[PodView]) -> None:
        uids, names = {pod.uid for pod in gone}, ", ".join(sorted(pod.name for pod in gone))
        await self._await(lambda now: not uids & {pod.uid for pod in now.all}, f"{names} ended")

    async def _roll(self, part: str, old: Sequence[PodView]) -> str:
        edit = RESTART[part]
        live = await self._live()
        await edited(self.cluster, applied_edit(live, edit.spec(live)), edit.field_manager)
        await self._await_gone(old)
        return f"{len(old)} {part} were replaced"

    async def _roll_gateway(self, old: Sequence[PodView]) -> str:
        ref = Ref(DEPLOYMENT, self.ref.namespace, workload_name(self.gateway, GATEWAY))
        live = await live_of(self.cluster, ref.namespace, ref.name, ref.kind)
        restarted = {"annotations": {RESTARTED: self.cluster.api.clock.now().isoformat(timespec="seconds")}}
        await edited(self.cluster, applied_edit(live, {"template": {"metadata": restarted}}), DRILL_MANAGER)
        await self._await_gone(old)
        return f"{len(old)} pods of {self.gateway} were replaced"

    async def _delete(self, among: Sequence[PodView]) -> str:
        pod = self.random.choice(sorted(among, key=lambda one: one.name))
        await self.cluster.delete(Ref(POD, self.ref.namespace, pod.name), uid=pod.uid)
        await self._await_gone([pod])
        return f"deleted {pod.name}"

    async def _end_operator(self) -> str:
        async def operators() -> Mapping[str, Manifest]:
            pods = await list_objects(self.cluster, POD, self.system, SELECTOR)
            return {pod["metadata"]["uid"]: pod for pod in pods}

        old = await operators()
        if not old:
            raise NotHealedError(f"no pod of the operator is in the namespace `{self.system}`")
        for uid, pod in old.items():
            with suppress(NotFoundError):
                await self.cluster.delete(Ref(POD, self.system, pod["metadata"]["name"]), uid=uid)

        async def is_back() -> bool:
            new = await operators()
            ready = [pod for pod in new.values() if pod_view(pod, component="").ready]
            return not old.keys() & new.keys() and len(ready) >= len(old)

        await self._until(is_back, f"the operator is not back after {self.limit_seconds:g} s")
        return f"ended {len(old)} pods of the operator"

    async def _drain(self, pods: Pods) -> str:
        """Evict the pods of a node, as `kubectl drain` does, again and again until their budgets allow it."""
        node = self.random.choice(sorted({pod.node for pod in pods.all if pod.node}))
        deadline = time.monotonic() + self.limit_seconds
        leaving = [pod for pod in pods.all if pod.node == node and not pod.terminating]
        for pod in leaving:
            while not await self._is_evicted(pod):
                if time.monotonic() > deadline:
                    raise NotHealedError(f"the eviction of {pod.name} was refused for {self.limit_seconds:g} s")
                await asyncio.sleep(POLL_SECONDS)
        await self._await_gone(leaving)
        return f"evicted {len(leaving)} pods from {node}"

    async def _is_evicted(self, pod: PodView) -> bool:
        ref = Ref(POD, self.ref.namespace, pod.name)
        metadata = {"name": pod.name, "namespace": ref.namespace}
        options = {"preconditions": {"uid": pod.uid}}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        try:
            await self.cluster.api.request("POST", f"{ref.path}/eviction", POD, body=body)
        except NotFoundError:
            return True
        except ClusterError as error:
            if f"HTTP {HTTPStatus.TOO_MANY_REQUESTS.value}" in error.cause:
                return False
            raise
        return True

    async def _with_fewer(self, replicas: int) -> str:
        async with self._annotated(replicas):
            await self._await(lambda now: len(now.answering) <= replicas, f"{replicas} engines are left")
            await asyncio.sleep(DOWN_SECONDS)
        return f"{replicas} engine{'s' * (replicas != 1)} for {DOWN_SECONDS:g} s"

    @asynccontextmanager
    async def _annotated(self, replicas: int) -> AsyncIterator[None]:
        """Ask the operator for fewer engines until the block ends, or shortly after this process does."""

        async def ask() -> None:
            until = self.cluster.api.clock.now() + timedelta(seconds=ASK_SECONDS)
            body = applied_edit(await self._live(), {})
            body["metadata"] |= {"annotations": {DRILL_ANNOTATION: Drill(replicas, until).text}}
            await edited(self.cluster, body, DRILL_MANAGER)

        async def go_on() -> None:
            while True:
                await asyncio.sleep(ASK_SECONDS / 4)
                with suppress(ClusterError, RefusedError):
                    await ask()

        try:
            await ask()
            asking = asyncio.create_task(go_on())
            try:
                yield
            finally:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
        finally:
            await self.tidy()
