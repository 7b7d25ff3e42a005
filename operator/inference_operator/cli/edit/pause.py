"""`infd pause`: stops the operator from changing a resource, and waits until it has seen that."""

import argparse
import asyncio
import sys

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.cli.connection import in_cluster
from inference_operator.cli.edits import UNSEEN, EditError, awaited, edited, live_of
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, harmless
from inference_operator.cli.pausing import FIELD_MANAGER_OF_PAUSE, InGit, pause_edit, resume_by_force
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest, Ref

PAUSED = (
    "paused. Engines and routers go on serving. Until `infd resume`, nothing is created, changed, repaired, scaled or"
    " deleted, and edits wait."
)
RESUMED = "resumed. The operator applies the edits that have waited."


def set_paused(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Pause or resume one resource; returns 1 if that is refused, or the operator does not see it."""
    made: list[Manifest] = []
    paused: bool = options.paused

    async def work(api: Api, cluster: KubeCluster) -> int:
        shown = f"{options.namespace}/{options.name}"
        try:
            print(f"{shown}: {await _set(api, cluster, options, made, paused=paused)}")
        except EditError as error:
            print(harmless(f"{shown}: {error}"), file=sys.stderr)
            return EXIT_REFUSED
        return 0

    try:
        return asyncio.run(in_cluster(work, options))
    except KeyboardInterrupt:
        done = "The edit is made." if made else f"Perhaps nothing has changed: `infd status {options.name}` shows it."
        print(f"Interrupted. {done}", file=sys.stderr)
        return EXIT_INTERRUPTED


async def _set(
    api: Api, cluster: KubeCluster, options: argparse.Namespace, made: list[Manifest], *, paused: bool
) -> str:
    """Edit the resource, add it to `made`, and wait until the operator has seen it; returns what is so now."""
    live = await live_of(cluster, options.namespace, options.name)
    change = pause_edit(live, paused=paused)
    if isinstance(change, InGit):
        value = "true" if paused else "false"
        raise EditError(f"{change.by} sets `spec.paused` from its source. Commit `spec.paused: {value}` there.")
    if change is None:
        return f"is {'paused' if paused else 'not paused'} already. Nothing was changed."
    live = await edited(api, change.body, FIELD_MANAGER_OF_PAUSE)
    if not paused and (by_force := resume_by_force(live)):
        await edited(api, by_force.body, FIELD_MANAGER_OF_PAUSE)
    made.append(live)
    ref = Ref.of(live)
    await awaited(cluster, ref, lambda found: _unseen(found, paused=paused), timeout_seconds=options.timeout)
    return PAUSED if paused else RESUMED


def _unseen(live: Manifest, *, paused: bool) -> str | None:
    """Why the wait goes on; None once the condition Ready tells of the edit."""
    ready = resource(live).current_condition(ConditionType.READY)
    return None if ready and (ready.reason == Reason.PAUSED) == paused else UNSEEN
