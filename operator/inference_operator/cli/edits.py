"""Edits of one resource in a cluster by server-side apply, and the wait until the operator has acted on them."""

import asyncio
import time
from collections.abc import Callable

from inference_operator.cli.parser import UsageError, harmless
from inference_operator.controller.cluster import ConflictError, ForbiddenError, RejectedError
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest, Ref

POLL_SECONDS = 1.0
QUIET_SECONDS = 10.0
"""Before the wait tells that the operator has not seen the edit: it sees most within a second."""
UNSEEN = "the operator has not seen the edit yet. If this lasts, does it run?"


class EditError(Exception):
    """An edit is not made, or not acted on; the message is for the user."""


async def live_of(cluster: KubeCluster, namespace: str, name: str) -> Manifest:
    """The live resource; raises `UsageError` if there is none."""
    live = await cluster.get(Ref(INFERENCE_DEPLOYMENT, namespace, name))
    if live is None:
        raise UsageError(f"There is no InferenceDeployment `{name}` in the namespace `{namespace}`.")
    return live


async def edited(api: Api, body: Manifest, field_manager: str) -> Manifest:
    """The resource after a server-side apply; raises `EditError` if it is refused."""
    ref, query = Ref.of(body), {"fieldManager": field_manager, "force": "true"}
    try:
        return await api.request("PATCH", ref.path, ref.kind, query=query, body=body)
    except ForbiddenError as error:
        right = "The command needs the right to patch InferenceDeployments"
        raise EditError(f"you may not edit it. {right}: {error.cause}") from error
    except (ConflictError, RejectedError) as error:
        raise EditError(f"the API server refuses the edit: {error.cause}") from error


async def awaited(
    cluster: KubeCluster, ref: Ref, progress: Callable[[Manifest], str | None], *, timeout_seconds: int
) -> None:
    """Wait until nothing is left to wait for, and print what goes on.

    Args:
        cluster: the cluster.
        ref: the resource.
        progress: what a live resource waits for; None: for nothing more. It raises `EditError` if waiting is vain.
        timeout_seconds: how long nothing may change.

    Raises:
        EditError: it was deleted, or nothing changed for too long.
    """
    said = ""
    begin = since = time.monotonic()
    while (live := await cluster.get(ref)) is not None:
        message = progress(live)
        if message is None:
            return
        now = time.monotonic()
        if message != said and not (message == UNSEEN and now - begin < QUIET_SECONDS):
            print(harmless(f"{ref.namespace}/{ref.name}: {message}"), flush=True)
            said, since = message, now
        elif now - since > timeout_seconds:
            raise EditError(f"nothing has changed for {timeout_seconds} s.")
        await asyncio.sleep(POLL_SECONDS)
    raise EditError("it was deleted.")
