"""`infd pause`: stops the operator from changing a resource, and waits until it has seen that."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.cli.connection import add_connection, add_timeout, in_cluster
from inference_operator.cli.output import harmless
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, examples
from inference_operator.engines.registry import EngineRegistry
from inference_operator.manifest import Manifest, Ref

if TYPE_CHECKING:
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster

TIMEOUT_SECONDS = 60
"""Default of --timeout: two Lease durations, after which another process has taken over from one that ended."""
PAUSED = (
    "paused. Engines and routers go on serving. Until `infd resume`, nothing is created, changed, repaired, scaled or"
    " deleted, and edits wait."
)
RESUMED = "resumed. The operator applies the edits that have waited."


def add_arguments(pause: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd pause`."""
    pause.description = (
        "Stop the operator from creating, changing, repairing, scaling and deleting anything of an InferenceDeployment,"
        " and wait until it has seen that. Engines and routers go on serving, and the status stays up to date. The"
        " command sets `spec.paused`; where Git sets that field, it prints the edit to commit. `infd plan --diff` shows"
        " what waits. It needs the rights to get and patch InferenceDeployments."
    )
    pause.epilog = examples("infd pause qwen", "infd pause qwen -n chat")
    add_waiting(pause)
    pause.set_defaults(run=lambda options, engines: set_paused(options, engines, paused=True))


def add_waiting(parser: argparse.ArgumentParser) -> None:
    """Add the name, the options for the cluster, and that for the wait."""
    parser.add_argument("name", help="name of the InferenceDeployment")
    add_connection(parser)
    add_timeout(parser, TIMEOUT_SECONDS, "give up when nothing changes for this time")


def set_paused(options: argparse.Namespace, _: EngineRegistry, *, paused: bool) -> int:
    """Pause or resume one resource; returns 1 if that is refused, or the operator does not see it."""
    from inference_operator.cli.edits import EditError  # noqa: PLC0415 - see `cli.connection`

    made: list[Manifest] = []

    async def work(api: "Api", cluster: "KubeCluster") -> int:
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
    api: "Api", cluster: "KubeCluster", options: argparse.Namespace, made: list[Manifest], *, paused: bool
) -> str:
    """Edit the resource, add it to `made`, and wait until the operator has seen it; returns what is so now."""
    from inference_operator.cli.edits import EditError, awaited, edited, live_of  # noqa: PLC0415 - see `cli.connection`
    from inference_operator.cli.pausing import (  # noqa: PLC0415 - as above
        FIELD_MANAGER_OF_PAUSE,
        InGit,
        pause_edit,
        resume_by_force,
    )

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
    from inference_operator.cli.edits import UNSEEN  # noqa: PLC0415 - see `cli.connection`

    ready = resource(live).current_condition(ConditionType.READY)
    return None if ready and (ready.reason == Reason.PAUSED) == paused else UNSEEN
