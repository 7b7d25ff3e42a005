"""kopf as watch engine: events become cached objects and marked keys. The only module that imports kopf.

Only low-level event handlers are registered, for which kopf itself writes nothing: no finalizers, no annotations.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import kopf

from inference_operator.kube.client import LIST_CHUNK, REQUEST_TIMEOUT_SECONDS, in_cluster
from inference_operator.manifest import CHILD_KINDS, INFERENCE_DEPLOYMENT, NETWORK_POLICY, POD, Kind, Manifest
from inference_operator.resources.names import MANAGED_SELECTOR
from inference_operator.settings import Settings

CONNECT_TIMEOUT_SECONDS = 5.0


def watched_kinds(settings: Settings) -> tuple[Kind, ...]:
    """The kinds that are listed and watched beside InferenceDeployments."""
    return (*CHILD_KINDS, *((NETWORK_POLICY,) if settings.network_policies else ()), POD)


Seen = Callable[[str, Manifest], None]
"""Is told of every event: its type (ADDED, MODIFIED, DELETED or none for a listed object) and the object."""


class _NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no copy of what was seen last: events carry all that is needed, and the copy doubles the cost of each."""

    def build(self, **_: Any) -> kopf.BodyEssence:  # noqa: ANN401 - kopf's protocol
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:  # noqa: ANN401 - kopf's protocol
        return None

    def store(self, **_: Any) -> None:  # noqa: ANN401 - kopf's protocol
        return None


def watch(settings: Settings, seen: Seen, *, stop: asyncio.Event) -> Awaitable[None]:
    """Watch InferenceDeployments and all that belongs to them, until told to stop."""
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # it would tell of every event
    return kopf.operator(
        registry=_registry(watched_kinds(settings), seen, stop),
        settings=_kopf_settings(watched_kinds(settings)),
        standalone=True,
        # Left to itself kopf asks for the user's name, which an arbitrary uid in a container does not have.
        identity="inference-operator",  # type: ignore[arg-type]  # a NewType of str that kopf does not export
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        stop_flag=stop,
    )


def _registry(kinds: Sequence[Kind], seen: Seen, stop: asyncio.Event) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def on_event(event: Any, **_: Any) -> None:  # noqa: ANN401 - kopf's protocol
        seen(event["type"] or "", dict(event["object"]))

    for kind in (INFERENCE_DEPLOYMENT, *kinds):
        kopf.on.event(*_address(kind), registry=registry, id=kind.plural)(on_event)

    async def on_cleanup(**_: Any) -> None:  # noqa: ANN401 - kopf's protocol
        # kopf handles signals itself while it runs, and would wait five seconds for who waits for this flag.
        stop.set()

    kopf.on.cleanup(registry=registry, id="stop")(on_cleanup)
    login = kopf.login_with_service_account if in_cluster() else kopf.login_via_client
    kopf.on.login(registry=registry, errors=kopf.ErrorsMode.TEMPORARY)(login)
    return registry


def _kopf_settings(kinds: Sequence[Kind]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # neither CRDs nor namespaces are listed, so no right to is needed
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.watching.chunk_size = LIST_CHUNK
    settings.networking.request_timeout = REQUEST_TIMEOUT_SECONDS
    settings.networking.connect_timeout = CONNECT_TIMEOUT_SECONDS
    for kind in kinds:
        settings.watching.label_selectors[*_address(kind)] = MANAGED_SELECTOR
    return settings


def _address(kind: Kind) -> tuple[str, str, str]:
    """A kind as kopf names it; the core group is the empty text."""
    group, _, version = kind.api_version.rpartition("/")
    return group, version, kind.plural
