"""Complete listings, which replace what watches have told: a watch can miss a deletion, and can die unnoticed."""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from inference_operator.manifest import (
    CHILD_KINDS,
    INFERENCE_DEPLOYMENT,
    NETWORK_POLICY,
    NODE,
    POD,
    Key,
    Kind,
    Manifest,
    kind_of,
)
from inference_operator.reconcile.cache import Cache
from inference_operator.reconcile.cluster import Cluster, ClusterError, ForbiddenError, Listing
from inference_operator.resources.names import MANAGED_SELECTOR
from inference_operator.settings import Settings

DEAF_LISTINGS = 2
"""Listings in a row that show what no watch has told, although nothing of that kind was heard in between, and the
watch counts as dead. One may cross with an event on its way."""

log = logging.getLogger(__name__)


def watched_kinds(settings: Settings) -> Sequence[Kind]:
    """The kinds that are listed and watched."""
    policies = (NETWORK_POLICY,) if settings.network_policies else ()
    return (INFERENCE_DEPLOYMENT, *CHILD_KINDS, *policies, POD)


class Resync:
    """Lists namespace by namespace, so that one which cannot be read does not stop the others.

    Args:
        cluster: what is listed.
        cache: what is replaced.
        settings: which namespaces are served; none means the whole cluster.
        add: asks for a round for a key.
    """

    def __init__(self, cluster: Cluster, cache: Cache, settings: Settings, add: Callable[[Key], None]) -> None:
        self._cluster = cluster
        self._cache = cache
        self._add = add
        self._scope: Sequence[str | None] = tuple(settings.namespaces) or (None,)
        self.kinds = watched_kinds(settings)
        self._unreadable: dict[str | None, str] = {}
        """Why a namespace could not be listed last."""
        self._listed: set[str | None] = set()
        self._nodes_seen = True
        """Whether nodes could be listed last, so that it is told once if not."""
        self._nodes_missing = False
        """Whether nodes have never been listed, and could be."""
        self.versions: dict[str, int] = {}
        """The resourceVersion of the last listing, by the URL path of each collection."""
        self._heard: set[Kind] = set()
        self._unheard: Counter[Kind] = Counter()

    @property
    def readable(self) -> frozenset[str]:
        """The namespaces that can be read; empty for the whole cluster."""
        return frozenset(name for name in self._listed if name is not None)

    @property
    def unreadable(self) -> Sequence[str]:
        """The namespaces that are served and could not be listed last, or the whole cluster by an empty name."""
        return sorted(name or "" for name in self._unreadable)

    @property
    def watchable(self) -> Sequence[Kind]:
        """What is watched: everything that is listed, and nodes where they could be."""
        return self.kinds if self._cache.nodes.nodes is None else (*self.kinds, NODE)

    def hear(self, event: str, manifest: Manifest) -> None:
        """Take what a watch has told."""
        kind = kind_of(manifest)
        self._heard.add(kind)
        if kind == NODE:
            nodes = self._cache.nodes
            self._ask_unsettled(nodes.forget(manifest) if event == "DELETED" else nodes.put(manifest))
            return
        key = self._cache.forget(manifest) if event == "DELETED" else self._cache.put(manifest)
        if key is not None:
            self._add(key)

    def deaf(self) -> Sequence[Kind]:
        """The kinds whose watch does not tell what listings show."""
        return [kind for kind, times in self._unheard.items() if times >= DEAF_LISTINGS]

    async def list_all(self) -> bool:
        """List everything; returns whether anything could be."""
        missed: set[Kind] = set()
        watched = bool(self._listed)
        for namespace in self._scope:
            try:
                missed.update(await self._list(namespace))
            except ClusterError as error:
                self._fail(namespace, error)
            else:
                self._succeed(namespace)
        missed.update(await self._list_nodes())
        for kind in self.watchable:
            if kind in self._heard:
                self._unheard[kind] = 0
            elif kind in missed and watched:
                self._unheard[kind] += 1
        self._heard.clear()
        return bool(self._listed) and not self._nodes_missing

    async def _list(self, namespace: str | None) -> Iterable[Kind]:
        """List one namespace; returns the kinds of which something was new."""
        missed = []
        for kind in self.kinds:
            selector = None if kind == INFERENCE_DEPLOYMENT else MANAGED_SELECTOR
            if concerned := await self._cache.replace(kind, self._pages(kind, namespace, selector)):
                missed.append(kind)
            for key in concerned:
                self._add(key)
        return missed

    async def _pages(
        self, kind: Kind, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[Listing]:
        async for page in self._cluster.pages(kind, namespace=namespace, selector=selector):
            yield page
            self.versions[kind.path(namespace)] = page.version

    async def _list_nodes(self) -> Iterable[Kind]:
        """List the nodes, which belong to no namespace; without the right to, sizes come from what is declared."""
        if None not in self._listed:
            return ()
        try:
            changed = await self._cache.nodes.replace(self._pages(NODE))
        except ClusterError as error:
            log.log(logging.WARNING if self._nodes_seen else logging.DEBUG, "Cannot list nodes: %s", error)
            self._nodes_seen = False
            # Without the right to, nothing is missing; but what passes must not be taken for that.
            self._nodes_missing = self._cache.nodes.nodes is None and not isinstance(error, ForbiddenError)
            return ()
        self._nodes_seen, self._nodes_missing = True, False
        self._ask_unsettled(changed)
        return (NODE,) if changed else ()

    def _ask_unsettled(self, changed: bool) -> None:  # noqa: FBT001 - what has just been found out
        for key in self._cache.unsettled() if changed else ():
            self._add(key)

    def _fail(self, namespace: str | None, error: ClusterError) -> None:
        if self._unreadable.get(namespace) != error.cause:
            log.warning("Cannot list %s, will try again: %s", _named(namespace), error)
        self._unreadable[namespace] = error.cause
        if isinstance(error, ForbiddenError):
            self._listed.discard(namespace)  # any other fault passes, and what is watched is still told

    def _succeed(self, namespace: str | None) -> None:
        if self._unreadable.pop(namespace, None) is not None:
            log.info("Can list %s again", _named(namespace))
        self._listed.add(namespace)


def _named(namespace: str | None) -> str:
    return "the cluster" if namespace is None else f"namespace {namespace}"
