"""Complete listings, which replace the cache: a watch can miss a deletion, and can be dead without an error."""

import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from inference_operator.controller.cache import Cache
from inference_operator.controller.cached_object import version_of
from inference_operator.controller.cluster import Cluster, ClusterError, ForbiddenError, Listing, NotFoundError
from inference_operator.controller.workqueue import Priority
from inference_operator.manifest import (
    CHILD_KINDS,
    INFERENCE_DEPLOYMENT,
    NETWORK_POLICY,
    NODE,
    OPTIONAL_KINDS,
    POD,
    Key,
    Kind,
    Manifest,
    kind_of,
)
from inference_operator.objects.names import MANAGED_SELECTOR
from inference_operator.settings import Settings
from inference_operator.views.leaving_node import LeavingNode
from inference_operator.views.raw import mapping

DEAD_WATCH_LISTINGS = 2
"""A watch counts as dead after this many listings in a row that found changes of its kind, with no event of that kind
between. One such listing can be a race with an event on its way."""

log = logging.getLogger(__name__)


def watched_kinds(settings: Settings) -> Sequence[Kind]:
    """The kinds that are listed and watched."""
    policies = (NETWORK_POLICY,) if settings.uses_network_policies else ()
    return (INFERENCE_DEPLOYMENT, *CHILD_KINDS, *policies, POD)


class Lister:
    """Lists namespace by namespace, so that a namespace that cannot be read does not block the others.

    Args:
        cluster: the cluster to list.
        cache: the cache to replace.
        settings: the namespaces that are served; none means the whole cluster.
        add: queues a key for a reconcile: with high priority after an event of its own, else with low priority.
    """

    def __init__(
        self, cluster: Cluster, cache: Cache, settings: Settings, add: Callable[[Key, Priority], None]
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._add = add
        self._scope: Sequence[str | None] = tuple(settings.namespaces) or (None,)
        self.kinds = watched_kinds(settings)
        self._unreadable: dict[str | None, str] = {}
        """The namespaces whose last listing failed, with the cause."""
        self._missing: dict[str | None, Mapping[Kind, str]] = {}
        """The optional kinds that the last listing of a namespace found unavailable, and why."""
        self._listed: set[str | None] = set()
        self._found: defaultdict[str | None, set[Key]] = defaultdict(set)
        """The keys that listings of a namespace concern, until one of them is complete."""
        self._nodes_listed = True
        """Whether the last listing of nodes worked, so that a failure is logged as a warning only once."""
        self._nodes_missing = False
        """Whether nodes have never been listed, although the operator has the right to."""
        self.versions: dict[str, int] = {}
        """The resourceVersion of the last listing, by the URL path of each collection."""
        self.history_went_back = False
        """Whether a listing was older than a former one, or than an event from before it was asked for.

        The cluster's state was then restored from a backup of etcd.

        Versions in the cache cannot be compared with those of now. So nothing of it is used any more: the process ends.
        """
        self._newest: Counter[Kind] = Counter()
        """The largest resourceVersion of an event, by kind."""
        self._with_events: set[Kind] = set()
        """The kinds of which an event has come since the last listing."""
        self._silent_listings: Counter[Kind] = Counter()
        """How many listings in a row found changes of a kind without an event of that kind."""

    @property
    def readable(self) -> frozenset[str]:
        """The namespaces that can be listed; empty for the whole cluster."""
        return frozenset(name for name in self._listed if name is not None)

    @property
    def unreadable(self) -> Sequence[str]:
        """The served namespaces whose last listing failed; the whole cluster is an empty name."""
        return sorted(name or "" for name in self._unreadable)

    @property
    def watchable(self) -> Sequence[Kind]:
        """The kinds to watch: all that are listed, optional ones that exist, and nodes if they could be listed."""
        optional = [kind for kind in OPTIONAL_KINDS if kind not in self._cache.unavailable_kinds]
        nodes = () if self._cache.nodes.nodes is None else (NODE,)
        return (*self.kinds, *optional, *nodes)

    def on_event(self, event: str, manifest: Manifest) -> None:
        """Put a watch event into the cache and queue the keys that it concerns."""
        kind = kind_of(manifest)
        self._with_events.add(kind)
        self._newest[kind] = max(self._newest[kind], version_of(manifest))
        if kind == NODE:
            nodes = self._cache.nodes
            before = nodes.leaving or {}
            self._queue_nodes(nodes.forget(manifest) if event == "DELETED" else nodes.put(manifest), before)
            return
        for key in self._cache.forget(manifest) if event == "DELETED" else self._cache.put(manifest):
            self._add(key, _priority(event, manifest))

    def dead_watches(self) -> Sequence[Kind]:
        """The kinds whose watch sends no events although listings find changes.

        kopf itself reopens a watch that sends nothing at all (`watching.inactivity_timeout`). This finds a watch that
        still sends bookmarks, which keep it open, but no events.
        """
        return [kind for kind, count in self._silent_listings.items() if count >= DEAD_WATCH_LISTINGS]

    async def list_all(self) -> bool:
        """List everything; returns whether at least one namespace could be listed, and nodes where that is allowed."""
        changed: set[Kind] = set()
        watching = bool(self._listed)
        for namespace in self._scope:
            if self.history_went_back:
                break
            try:
                changed.update(await self._list(namespace))
            except ClusterError as error:
                self._fail(namespace, error)
            else:
                self._succeed(namespace)
        self._cache.unavailable_kinds = {
            kind: why for namespace in self._listed for kind, why in self._missing.get(namespace, {}).items()
        }
        changed.update(await self._list_nodes())
        for kind in self.watchable:
            if kind in self._with_events:
                self._silent_listings[kind] = 0
            elif kind in changed and watching:
                self._silent_listings[kind] += 1
        self._with_events.clear()
        return bool(self._listed) and not self._nodes_missing

    async def _list(self, namespace: str | None) -> Iterable[Kind]:
        """List one namespace; returns the kinds of which something changed.

        Keys are queued only after the last kind. After a restore of etcd, a resource can be back whose children are
        listed later: a reconcile in between would plan engines anew that serve.
        """
        changed = []
        found = self._found[namespace]
        missing: dict[Kind, str] = {}
        for kind in (*self.kinds, *OPTIONAL_KINDS):
            selector = None if kind == INFERENCE_DEPLOYMENT else MANAGED_SELECTOR
            concerned = set[Key]()
            try:
                await self._cache.replace(kind, self._pages(kind, namespace, selector), concerned)
            except (NotFoundError, ForbiddenError) as error:
                if kind not in OPTIONAL_KINDS:
                    raise
                missing[kind] = _why_unavailable(kind, error)
            finally:
                found.update(concerned)
            if concerned:
                changed.append(kind)
        self._missing[namespace] = missing
        for key in found:
            self._add(key, Priority.LOW)
        found.clear()
        return changed

    async def _pages(
        self, kind: Kind, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[Listing]:
        path = kind.path(namespace)
        # Before the request: the API server answers with its newest state, and events go on coming meanwhile.
        known = max(self.versions.get(path, 0), self._newest[kind])
        async for page in self._cluster.pages(kind, namespace=namespace, selector=selector):
            if page.version < known:
                self.history_went_back = True
                raise ClusterError("the state of the API server is older than before, as after a restore of etcd")
            yield page
            self.versions[path] = page.version

    async def _list_nodes(self) -> Iterable[Kind]:
        """List the nodes if the whole cluster is served. Without the right to, engines are sized by the settings."""
        if None not in self._listed:
            return ()
        before = self._cache.nodes.leaving or {}
        try:
            changed = await self._cache.nodes.replace(self._pages(NODE))
        except ClusterError as error:
            log.log(logging.WARNING if self._nodes_listed else logging.DEBUG, "Cannot list nodes: %s", error)
            self._nodes_listed = False
            if isinstance(error, ForbiddenError):
                self._cache.nodes.hide()
            # A missing right is permanent, and nothing is missing then. Any other fault is temporary.
            self._nodes_missing = self._cache.nodes.nodes is None and not isinstance(error, ForbiddenError)
            return ()
        self._nodes_listed, self._nodes_missing = True, False
        self._queue_nodes(changed, before)
        return (NODE,) if changed else ()

    def _queue_nodes(self, changed: bool, before: Mapping[str, LeavingNode]) -> None:  # noqa: FBT001 - a method's result
        """Queue the resources that a change of nodes could help, and those with pods on a node that leaves or stays."""
        for key in self._cache.unsettled() if changed else ():
            self._add(key, Priority.LOW)
        now = self._cache.nodes.leaving or {}
        moved = {name for name in {*before, *now} if before.get(name) != now.get(name)}
        for key in self._cache.keys_on(moved) if moved else ():
            self._add(key, Priority.HIGH)

    def _fail(self, namespace: str | None, error: ClusterError) -> None:
        if self._unreadable.get(namespace) != error.cause:
            log.warning("Cannot list %s, will try again: %s", _named(namespace), error)
        self._unreadable[namespace] = error.cause
        if isinstance(error, ForbiddenError):
            self._listed.discard(namespace)  # any other fault is temporary, and the watches go on

    def _succeed(self, namespace: str | None) -> None:
        if self._unreadable.pop(namespace, None) is not None:
            log.info("Can list %s again", _named(namespace))
        self._listed.add(namespace)


def _priority(event: str, manifest: Manifest) -> Priority:
    """The priority of the keys of an event: normal for a pod, and where only the status of a child has changed."""
    kind, meta = kind_of(manifest), manifest["metadata"]
    observed = mapping(manifest, "status").get("observedGeneration")
    is_status = event == "MODIFIED" and observed is not None and observed == meta.get("generation")
    return Priority.NORMAL if kind == POD or (is_status and kind != INFERENCE_DEPLOYMENT) else Priority.HIGH


def _why_unavailable(kind: Kind, error: ClusterError) -> str:
    """Why an optional kind cannot be used, and the fix, in sentences."""
    group = kind.api_version.partition("/")[0]
    if isinstance(error, ForbiddenError):
        return f"the operator has no right to list {kind.plural}.{group}. Update the chart, which grants it."
    return (
        f"the cluster has no {kind.plural}.{group}. Install its CustomResourceDefinition; the operator finds it then."
    )


def _named(namespace: str | None) -> str:
    return "the cluster" if namespace is None else f"namespace {namespace}"
