"""`infd renew --routers`: replaces routers that keep an earlier pod template or configuration, and waits for it."""

import argparse
import asyncio
import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import yaml

from inference_operator.cli.connection import add_connection, add_timeout, in_cluster
from inference_operator.cli.managed_fields import applied_edit, manager
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, UsageError
from inference_operator.cli.renewal import (
    FIELD_MANAGER_OF_ROUTERS,
    Progress,
    edit,
    is_paused,
    is_vulnerable,
    problem,
    progress,
    router_condition,
)
from inference_operator.engines.registry import EngineRegistry
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest, Ref

if TYPE_CHECKING:
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster

POLL_SECONDS = 2.0
TIMEOUT_SECONDS = 600
"""Default of --timeout: that of a Deployment's `progressDeadlineSeconds` (Kubernetes 1.36, API reference)."""


class RenewalError(Exception):
    """The routers of a resource are not renewed; the message is for the user."""


class NotEditedError(RenewalError):
    """A resource is left as it is. That says nothing about others."""


def add_arguments(renew: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd renew`."""
    renew.description = (
        "Replace routers that keep the pod template or configuration of an earlier release, one by one, without losing"
        " a request, and wait until all are ready. The command sets the annotation `renewed-at-generation` in"
        " `spec.router.podTemplate.annotations`, as Argo CD's action `renew-routers` does. Routers that are as this"
        " release builds them stay. A resource that Argo CD or Flux applies is not edited: the command prints the edit"
        " to commit. It needs the rights to get (with several resources: list) and patch InferenceDeployments."
    )
    renew.add_argument("--routers", action="store_true", required=True, help="renew the routers; required")
    which = renew.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", help="name of the InferenceDeployment")
    which.add_argument("--all", action="store_true", help="all of the namespace, one after the other")
    which.add_argument("-A", "--all-namespaces", action="store_true", help="all of the cluster, one after the other")
    add_connection(renew)
    add_timeout(renew, TIMEOUT_SECONDS, "give up when nothing changes for this time")
    renew.set_defaults(run=_renew)


def _renew(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Renew the routers of the chosen resources; returns 1 if those of one are not renewed."""

    async def work(api: "Api", cluster: "KubeCluster") -> int:
        return await _one_by_one(api, cluster, await _chosen(cluster, options), options.timeout)

    try:
        return asyncio.run(in_cluster(work, options))
    except KeyboardInterrupt:
        print("Interrupted. A rollout that has begun goes on; the same command follows it.", file=sys.stderr)
        return EXIT_INTERRUPTED


async def _chosen(cluster: "KubeCluster", options: argparse.Namespace) -> Sequence[Ref]:
    """The resources, those with vulnerable routers first."""
    if options.name:
        ref = Ref(INFERENCE_DEPLOYMENT, options.namespace, options.name)
        if await cluster.get(ref) is None:
            raise UsageError(f"There is no InferenceDeployment `{ref.name}` in the namespace `{ref.namespace}`.")
        return [ref]
    namespace = None if options.all_namespaces else options.namespace
    found = [live async for live in cluster.each(INFERENCE_DEPLOYMENT, namespace=namespace)]
    if not found:
        print(f"There is no InferenceDeployment in {f'the namespace `{namespace}`' if namespace else 'any namespace'}.")
    found.sort(key=lambda live: (not is_vulnerable(live), live["metadata"]["namespace"], live["metadata"]["name"]))
    return [Ref(INFERENCE_DEPLOYMENT, one["metadata"]["namespace"], one["metadata"]["name"]) for one in found]


async def _one_by_one(api: "Api", cluster: "KubeCluster", chosen: Sequence[Ref], timeout_seconds: int) -> int:
    """Renew one resource after the other. After a rollout that failed none is begun: it could fail likewise."""
    status = 0
    for number, ref in enumerate(chosen):
        try:
            await _renew_one(api, cluster, ref, timeout_seconds)
        except RenewalError as error:
            print(f"{_shown(ref)}: {error}", file=sys.stderr)
            status = EXIT_REFUSED
            if not isinstance(error, NotEditedError):
                if left := ", ".join(map(_shown, chosen[number + 1 :])):
                    print(f"Not renewed either: {left}.", file=sys.stderr)
                break
    return status


async def _renew_one(api: "Api", cluster: "KubeCluster", ref: Ref, timeout_seconds: int) -> None:
    """Edit one resource unless its routers are the latest, and wait until they are."""
    live = await _settled(cluster, ref, timeout_seconds, while_in={Progress.UNSEEN})
    match progress(live):
        case Progress.NONE:
            print(f"{_shown(ref)}: no router runs, because `spec.router.strategy` is `External`.")
            return
        case Progress.LATEST if not is_paused(live):
            print(f"{_shown(ref)}: routers are as this release builds them. Nothing was changed.")
            return
        case Progress.ROLLING:
            pass  # an edit before this one: its rollout is followed
        case _:
            if why := _why_not_edited(live):
                raise NotEditedError(why)
            await _edit(api, ref, live)
    await _settled(cluster, ref, timeout_seconds, while_in=set(Progress) - {Progress.LATEST, Progress.NONE})
    print(f"{_shown(ref)}: all routers are renewed.")


def _why_not_edited(live: Manifest) -> str:
    """Why a resource whose routers are not the latest is left as it is; empty if it is edited."""
    if is_paused(live):
        return "the operator changes nothing while `spec.paused` is true. Run `infd resume` first."
    if progress(live) is Progress.UNAVAILABLE:
        return f"{_message(live)} Routers that become ready are as this release builds them. Nothing was changed."
    if name := manager(live):
        action = "Run Argo CD's action `renew-routers`, or commit" if name == "Argo CD" else "Commit"
        text = yaml.safe_dump({"spec": edit(live)}, sort_keys=False).rstrip()
        return f"{name} applies this resource from its source, so nothing was changed. {action} this edit:\n{text}"
    return ""


async def _edit(api: "Api", ref: Ref, live: Manifest) -> None:
    from inference_operator.cli.edits import EditError, edited  # noqa: PLC0415 - see `cli.connection`

    try:
        await edited(api, applied_edit(live, edit(live)), FIELD_MANAGER_OF_ROUTERS)
    except EditError as error:
        raise RenewalError(str(error)) from error
    print(f"{_shown(ref)}: edited `spec.router.podTemplate.annotations`.")


async def _settled(
    cluster: "KubeCluster", ref: Ref, timeout_seconds: int, *, while_in: Collection[Progress]
) -> Manifest:
    """The live resource, once its progress is no longer one of these; raises `RenewalError` where it will not end."""
    said, since = "", time.monotonic()
    while True:
        live = await cluster.get(ref)
        if live is None:
            raise NotEditedError("it was deleted.")
        if progress(live) not in while_in:
            return live
        if progress(live) is Progress.OLDER and (cause := problem(live)):
            raise RenewalError(f"the operator does not apply the edit: {cause}")
        if (message := _message(live)) != said:
            print(f"{_shown(ref)}: {message}", flush=True)
            said, since = message, time.monotonic()
        elif time.monotonic() - since > timeout_seconds:
            raise RenewalError(f"nothing has changed for {timeout_seconds} s. {message} {problem(live)}".rstrip())
        await asyncio.sleep(POLL_SECONDS)


def _message(live: Manifest) -> str:
    condition = router_condition(live)
    return (
        condition.message if condition else "The operator has not seen the last edit yet. If this lasts, does it run?"
    )


def _shown(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.name}"
