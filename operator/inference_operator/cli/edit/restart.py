"""`infd restart`: replaces the engines or the routers of a resource one by one, and waits for it."""

import argparse
import asyncio
import sys

import yaml

from inference_operator.api.pod_template import RENEWED_ANNOTATION
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.cli.connection import in_cluster
from inference_operator.cli.edits import UNSEEN, EditError, awaited, edited, live_of
from inference_operator.cli.managed_fields import applied_edit, git_owner
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, harmless
from inference_operator.cli.renewal import ENGINES, PAUSED, ROUTERS, RenewedPart, is_paused
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest, Ref
from inference_operator.views.raw import mapping


def run(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Restart one resource; returns 1 if that is refused, or does not end."""

    async def work(api: Api, cluster: KubeCluster) -> int:
        try:
            await _roll(api, cluster, options)
        except EditError as error:
            print(harmless(f"{options.namespace}/{options.name}: {error}"), file=sys.stderr)
            return EXIT_REFUSED
        return 0

    try:
        return asyncio.run(in_cluster(work, options))
    except KeyboardInterrupt:
        print("Interrupted. A rollout that has begun goes on: `infd status` shows it.", file=sys.stderr)
        return EXIT_INTERRUPTED


async def _roll(api: Api, cluster: KubeCluster, options: argparse.Namespace) -> None:
    live = await live_of(cluster, options.namespace, options.name)
    part = ROUTERS if options.routers else ENGINES
    if why := why_not(live, part):
        raise EditError(why)
    await edited(api, applied_edit(live, part.edit(live)), part.field_manager)
    print(f"{options.namespace}/{options.name}: {part.name} are replaced one by one.", flush=True)
    if options.no_wait:
        return
    await awaited(cluster, Ref.of(live), rolling, timeout_seconds=options.timeout)
    print(f"{options.namespace}/{options.name}: all {part.name} are new.")


def why_not(live: Manifest, part: RenewedPart) -> str:
    """Why a resource is not restarted; empty if it is.

    Args:
        live: the resource.
        part: its routers, or its engines.

    Examples:
        >>> why_not({"spec": {"paused": True}}, ENGINES)
        'the operator changes nothing while `spec.paused` is true. Run `infd resume` first.'
    """
    if is_paused(live):
        return PAUSED
    if part is ROUTERS and mapping(mapping(live, "spec"), "router").get("strategy") == "External":
        return part.none
    if name := git_owner(live, (*part.path, RENEWED_ANNOTATION)):
        text = yaml.safe_dump({"spec": part.edit(live)}, sort_keys=False).rstrip()
        return f"{name} sets the annotation from its source, so nothing was changed. Commit this edit:\n{text}"
    return ""


def rolling(live: Manifest) -> str | None:
    """What a rollout waits for; None once all pods are new. Raises `EditError` if waiting is vain."""
    found = resource(live)
    stalled, reconciling, routers = (
        found.current_condition(kind)
        for kind in (ConditionType.STALLED, ConditionType.RECONCILING, ConditionType.ROUTER_AVAILABLE)
    )
    if stalled and stalled.status == "True":
        raise EditError(f"{stalled.reason}: {stalled.message}")
    if reconciling is None or routers is None:
        return UNSEEN
    if reconciling.reason == Reason.PAUSED:
        raise EditError("it was paused meanwhile. Run `infd resume`.")
    if reconciling.status == "True":
        return reconciling.message
    return routers.message if routers.reason == Reason.ROLLING_OUT else None
