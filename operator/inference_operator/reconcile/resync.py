"""Complete listings, which replace what watches have told: a watch can miss a deletion, and can die unnoticed."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from inference_operator.manifest import CHILD_KINDS, INFERENCE_DEPLOYMENT, NETWORK_POLICY, POD, Key, Kind
from inference_operator.reconcile.cache import Cache
from inference_operator.reconcile.cluster import Cluster, ClusterError, ForbiddenError
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

    def hear(self, kind: Kind) -> None:
        """Note that a watch has told something of a kind."""
        self._heard.add(kind)

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
        for kind in self.kinds:
            if kind in self._heard:
                self._unheard[kind] = 0
            elif kind in missed and watched:
                self._unheard[kind] += 1
        self._heard.clear()
        return bool(self._listed)

    async def _list(self, namespace: str | None) -> Iterable[Kind]:
        """List one namespace; returns the kinds of which something was new."""
        missed = []
        for kind in self.kinds:
            selector = None if kind == INFERENCE_DEPLOYMENT else MANAGED_SELECTOR
            listing = await self._cluster.list_objects(kind, namespace=namespace, selector=selector)
            if concerned := self._cache.replace(kind, listing):
                missed.append(kind)
            for key in concerned:
                self._add(key)
        return missed

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
