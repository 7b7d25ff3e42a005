"""`infd renew`: replaces routers and engines that keep something of an earlier release, and waits for it."""

import argparse
import asyncio
import sys
import time
from collections.abc import Collection, Sequence
from typing import TypeAlias

import yaml

from inference_operator.cli.connection import in_cluster
from inference_operator.cli.edits import EditError, edited
from inference_operator.cli.managed_fields import ARGO_CD, applied_edit, manager
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, UsageError
from inference_operator.cli.renewal import ENGINES, PAUSED, ROUTERS, Progress, RenewedPart, is_paused, problem
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest, Ref

POLL_SECONDS = 2.0
PARTS = (ROUTERS, ENGINES)
"""In the order of renewal: an engine asks for a key only if all routers send one."""
Task: TypeAlias = tuple[Ref, RenewedPart]
_DONE = frozenset({Progress.LATEST, Progress.NONE})


class RenewalError(Exception):
    """A part of a resource is not renewed; the message is for the user."""


class NotEditedError(RenewalError):
    """A resource is left as it is. That says nothing about others."""


def run(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Renew the chosen resources; returns 1 if one is not renewed."""

    async def work(api: Api, cluster: KubeCluster) -> int:
        parts = [part for part in PARTS if options.part in (None, part.name)]
        tasks = [(ref, part) for ref in await _chosen(cluster, options, parts) for part in parts]
        return await _one_by_one(_Renewal(api, cluster, options.timeout), tasks)

    try:
        return asyncio.run(in_cluster(work, options))
    except KeyboardInterrupt:
        print("Interrupted. A rollout that has begun goes on; the same command follows it.", file=sys.stderr)
        return EXIT_INTERRUPTED


async def _chosen(cluster: KubeCluster, options: argparse.Namespace, parts: Sequence[RenewedPart]) -> Sequence[Ref]:
    """The resources, those of which a chosen part is vulnerable first."""
    if options.name:
        ref = Ref(INFERENCE_DEPLOYMENT, options.namespace, options.name)
        if await cluster.get(ref) is None:
            raise UsageError(f"There is no InferenceDeployment `{ref.name}` in the namespace `{ref.namespace}`.")
        return [ref]
    namespace = None if options.all_namespaces else options.namespace
    found = [live async for live in cluster.each(INFERENCE_DEPLOYMENT, namespace=namespace)]
    if not found:
        print(f"There is no InferenceDeployment in {f'the namespace `{namespace}`' if namespace else 'any namespace'}.")

    def order(live: Manifest) -> tuple[bool, str, str]:
        vulnerable = any(part.is_vulnerable(live) for part in parts)
        return not vulnerable, live["metadata"]["namespace"], live["metadata"]["name"]

    return [Ref.of(live) for live in sorted(found, key=order)]


async def _one_by_one(renewal: "_Renewal", tasks: Sequence[Task]) -> int:
    """Renew one part after the other. After a rollout that failed none is begun: it could fail likewise."""
    status, said = 0, ""
    for number, (ref, part) in enumerate(tasks):
        try:
            await renewal.renew(ref, part)
        except RenewalError as error:
            status, told = EXIT_REFUSED, f"{_shown(ref)}: {error}"
            if told != said:  # a resource that is paused or gone is so for both parts
                print(told, file=sys.stderr)
            said = told
            if not isinstance(error, NotEditedError):
                if left := ", ".join(f"{part.name} of {_shown(ref)}" for ref, part in tasks[number + 1 :]):
                    print(f"Not renewed either: {left}.", file=sys.stderr)
                break
    return status


class _Renewal:
    """The renewal of single parts in a cluster."""

    def __init__(self, api: Api, cluster: KubeCluster, timeout_seconds: int | None) -> None:
        self._api, self._cluster, self._timeout_seconds = api, cluster, timeout_seconds

    async def renew(self, ref: Ref, part: RenewedPart) -> None:
        """Edit one resource unless this part of it is the latest, and wait until it is."""
        live = await self._settled(ref, part, while_in={Progress.UNSEEN, Progress.ROLLING})
        if why := _why_not_edited(live, part):
            raise NotEditedError(why)
        if (now := part.progress(live)) in _DONE:
            latest = f"{part.name} are as this release builds them. Nothing was changed."
            print(f"{_shown(ref)}: {latest if now is Progress.LATEST else part.none}")
            return
        await self._edit(ref, part, live)
        live = await self._settled(ref, part, while_in=set(Progress) - _DONE)
        if is_paused(live):
            raise RenewalError("it was paused meanwhile. Run `infd resume`, and this command again.")
        print(f"{_shown(ref)}: all {part.name} are renewed.")

    async def _edit(self, ref: Ref, part: RenewedPart, live: Manifest) -> None:
        try:
            await edited(self._api, applied_edit(live, part.edit(live)), part.field_manager)
        except EditError as error:
            raise RenewalError(str(error)) from error
        print(f"{_shown(ref)}: edited `{'.'.join(part.path)}`.")

    async def _settled(self, ref: Ref, part: RenewedPart, *, while_in: Collection[Progress]) -> Manifest:
        """The live resource, once it is in none of these; raises `RenewalError` where waiting will not end."""
        said, since, before = "", time.monotonic(), None
        limit = part.timeout_seconds if self._timeout_seconds is None else self._timeout_seconds
        while True:
            live = await self._cluster.get(ref)
            if live is None:
                raise NotEditedError("it was deleted.")
            now = part.progress(live)
            fails = now is Progress.STALLED and before is Progress.ROLLING  # also the rollout of an edit before this
            if now not in while_in and not fails:
                return live
            if now in {Progress.OLDER, Progress.STALLED} and (cause := problem(live)):
                raise RenewalError(f"the edit does not bring new {part.name}: {cause}")
            before = now
            if (message := part.message(live)) != said:
                print(f"{_shown(ref)}: {message}", flush=True)
                said, since = message, time.monotonic()
            elif time.monotonic() - since > limit:
                raise RenewalError(f"nothing has changed for {limit} s. {message} {problem(live)}".rstrip())
            await asyncio.sleep(POLL_SECONDS)


def _why_not_edited(live: Manifest, part: RenewedPart) -> str:
    """Why a part of a resource that may be older cannot be edited; empty if it can."""
    if is_paused(live):
        return PAUSED
    now = part.progress(live)
    if now is Progress.STALLED:
        return f"its {part.name} are not renewed before this is solved: {problem(live)}"
    if now is Progress.UNAVAILABLE:
        return f"{part.message(live)} {part.cure} Nothing was changed."
    if now is Progress.OLDER and (name := manager(live)):
        action = f"Run Argo CD's action `{part.action}`, or commit" if name == ARGO_CD else "Commit"
        text = yaml.safe_dump({"spec": part.edit(live)}, sort_keys=False).rstrip()
        return f"{name} applies this resource from its source, so nothing was changed. {action} this edit:\n{text}"
    return ""


def _shown(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.name}"
