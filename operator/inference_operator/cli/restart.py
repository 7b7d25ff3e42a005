"""`infd restart`: replaces the engines or the routers of a resource one by one, and waits for it."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

import yaml

from inference_operator.api.pod_template import RENEWED_ANNOTATION
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.cli.connection import add_connection, add_timeout, in_cluster
from inference_operator.cli.output import harmless
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, examples
from inference_operator.cli.renewal import ENGINES, PAUSED, ROUTERS, RenewedPart, is_paused
from inference_operator.engines.registry import EngineRegistry
from inference_operator.manifest import Manifest, Ref
from inference_operator.views.raw import mapping

if TYPE_CHECKING:
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster


def add_arguments(restart: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd restart`."""
    restart.description = (
        "Replace the engines of an InferenceDeployment one by one, as an edit of its specification does: the strategy"
        " is that of `spec.rollout`, and new ones have the image of this release. With --routers, replace its"
        " routers. The command sets the annotation `renewed-at-generation` in `spec.podTemplate.annotations`, or in"
        " `spec.router.podTemplate.annotations`, as the actions of Argo CD do, and waits until all are new. Git that"
        " does not name the annotation leaves it alone; where Git does, the command prints the edit to commit. It needs"
        " the rights to get and patch InferenceDeployments."
    )
    restart.epilog = examples("infd restart qwen", "infd restart qwen --routers")
    restart.add_argument("name", help="name of the InferenceDeployment")
    restart.add_argument("--routers", action="store_true", help="the routers, and not the engines")
    add_connection(restart)
    restart.add_argument("--no-wait", action="store_true", help="do not wait until all are new")
    add_timeout(restart, ENGINES.timeout_seconds, "give up when nothing changes for this time")
    restart.set_defaults(run=_restart)


def _restart(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Restart one resource; returns 1 if that is refused, or does not end."""
    from inference_operator.cli.edits import EditError  # noqa: PLC0415 - see `cli.connection`

    async def work(api: "Api", cluster: "KubeCluster") -> int:
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


async def _roll(api: "Api", cluster: "KubeCluster", options: argparse.Namespace) -> None:
    from inference_operator.cli.edits import EditError, awaited, edited, live_of  # noqa: PLC0415 - see `cli.connection`
    from inference_operator.cli.managed_fields import applied_edit  # noqa: PLC0415 - as above

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
    from inference_operator.cli.managed_fields import git_owner  # noqa: PLC0415 - see `cli.connection`

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
    from inference_operator.cli.edits import UNSEEN, EditError  # noqa: PLC0415 - see `cli.connection`

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
