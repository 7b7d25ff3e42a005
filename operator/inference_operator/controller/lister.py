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
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.raw import mapping

DEAD_WATCH_LISTINGS = 2
"""A watch counts as dead after this many listings in a row that found changes of its kind, with no event of that kind
between. One such listing can be a race with an event on its way."""

log = logging.getLogger(__name__)


def watched_kinds(settings: Settings) -> Sequence[Kind]:
    policies = (NETWORK_POLICY,) if settings.uses_network_policies else ()
    return (INFERENCE_DEPLOYMENT, *CHILD_KINDS, *policies, POD)


class Lister:
    """Lists namespace by namespace, so that a namespace that cannot be read does not block the others.

    Args:
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
        self.optional_kinds = (*(kind for kind in cache.kinds if kind not in self.kinds), *OPTIONAL_KINDS)
        """Kinds that a cluster has only if their CRD is installed."""
        self._unreadable: dict[str | None, tuple[str, bool]] = {}
        """The namespaces whose last listing failed, with the cause, and whether a right is missing."""
        self._missing: defaultdict[str | None, dict[Kind, str]] = defaultdict(dict)
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
    def readable(self) -> frozenset[str | None]:
        """The namespaces that can be listed; None is the whole cluster."""
        return frozenset(self._listed)

    @property
    def _in_order(self) -> Sequence[str | None]:
        return sorted(self._listed, key=str)

    @property
    def unreadable(self) -> Sequence[str]:
        """The served namespaces whose last listing failed; the whole cluster is an empty name."""
        return sorted(name or "" for name in self._unreadable)

    @property
    def missing_kinds(self) -> Sequence[Kind]:
        return [kind for kind in self.optional_kinds if kind in self._cache.unavailable_kinds]

    @property
    def watchable(self) -> Sequence[Kind]:
        """The kinds to watch: all that are listed, optional ones that exist, and nodes if they can be listed."""
        if not self._listed:
            return ()
        optional = [kind for kind in self.optional_kinds if kind not in self._cache.unavailable_kinds]
        nodes = () if self._cache.nodes.leaving is None else (NODE,)
        return (*self.kinds, *optional, *nodes)

    def on_event(self, event: str, manifest: Manifest) -> None:
        kind = kind_of(manifest)
        if kind in self._cache.unavailable_kinds or self._is_forgotten(manifest):  # of a watch that is about to end
            return
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
        watched, unavailable = self.watchable, self._cache.unavailable_kinds
        for namespace in self._scope:
            if self.history_went_back:
                break
            try:
                differing = await self._list(namespace, (*self.kinds, *self.optional_kinds))
            except ClusterError as error:
                self._fail(namespace, error)
            else:
                changed.update(differing if namespace in self._listed else ())  # one that comes had no watch
                if self._unreadable.pop(namespace, None) is not None:
                    log.info("Can list %s again", _named(namespace))
                self._listed.add(namespace)
        self._settle_kinds(unavailable if watched else None)
        changed.update(await self._list_nodes())
        for kind in self.watchable:
            if kind in self._with_events:
                self._silent_listings[kind] = 0
            elif kind in changed and kind in watched:
                self._silent_listings[kind] += 1
        self._with_events.clear()
        return bool(self._listed) and not self._nodes_missing

    async def find_kinds(self) -> None:
        """List the optional kinds that were unavailable, to find those that have come since.

        A kind that is missing in one namespace is looked for in no other: it is either in the whole cluster, or it
        cannot be used before the operator has the right to list it in each namespace.
        """
        unavailable = self._cache.unavailable_kinds
        kinds = self.missing_kinds
        for namespace in self._in_order:
            try:
                await self._list(namespace, kinds)
            except ClusterError as error:
                log.debug("Cannot look for optional kinds in %s: %s", _named(namespace), error)
                return
            kinds = [kind for kind in kinds if kind not in self._missing[namespace]]
        self._settle_kinds(unavailable)

    async def _list(self, namespace: str | None, kinds: Iterable[Kind]) -> Iterable[Kind]:
        """List kinds of one namespace; returns those of which something changed.

        Keys are queued only after the last kind. After a restore of etcd, a resource can be back whose children are
        listed later: a reconcile in between would plan engines anew that serve.
        """
        changed, listed = [], []
        existing = self._found[namespace]
        for kind in kinds:
            selector = None if kind.is_reconciled else MANAGED_SELECTOR
            concerned = set[Key]()
            try:
                await self._cache.replace(kind, self._pages(kind, namespace, selector), concerned)
                listed.append(kind)
            except (NotFoundError, ForbiddenError) as error:
                if kind not in self.optional_kinds:
                    raise
                concerned.update(self._miss(kind, namespace, _why_unavailable(kind, error)))
            finally:
                existing.update(concerned)
            if concerned:
                changed.append(kind)
        for kind in listed:
            self._missing[namespace].pop(kind, None)
        for key in existing:
            self._add(key, Priority.LOW)
        existing.clear()
        return changed

    def _miss(self, kind: Kind, namespace: str | None, why: str) -> Iterable[Key]:
        """Forget a kind that cannot be listed: its objects, and at once that it may be used."""
        self._missing[namespace][kind] = why
        self._cache.unavailable_kinds = {kind: why, **self._cache.unavailable_kinds}
        self._silent_listings.pop(kind, None)
        return self._cache.clear(kind, namespace)

    def _settle_kinds(self, former: Mapping[Kind, str] | None) -> None:
        """Let kinds be used that were listed in every namespace, and queue all resources if kinds have come or gone.

        `former` is None at the first listing, after which all resources are queued.
        """
        # Of two reasons that of the first namespace: there the kind is looked for.
        now = {kind: why for namespace in reversed(self._in_order) for kind, why in self._missing[namespace].items()}
        self._cache.unavailable_kinds = now
        if former is None or now == former:
            return
        for kind in self.optional_kinds:
            if kind in former and kind not in now:
                log.info("Found %s: it is used from now on", kind.resource)
            elif now.get(kind) != former.get(kind):
                log.warning("Cannot use %s: %s", kind.resource, now[kind])
        for key in self._cache.resource_keys():
            namespace = None if None in self._scope else key.namespace
            if namespace in self._unreadable:  # the cache may have half of it
                self._found[namespace].add(key)
            else:
                self._add(key, Priority.LOW)

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

    def _queue_nodes(self, changed: bool, before: Mapping[str, DrainingNode]) -> None:  # noqa: FBT001 - a method's result
        """Queue the resources that a change of nodes could help, and those with pods on a node that leaves or stays."""
        for key in self._cache.unsettled() if changed else ():
            self._add(key, Priority.LOW)
        now = self._cache.nodes.leaving or {}
        moved = {name for name in {*before, *now} if before.get(name) != now.get(name)}
        for key in self._cache.keys_on(moved) if moved else ():
            self._add(key, Priority.HIGH)

    def _fail(self, namespace: str | None, error: ClusterError) -> None:
        """Keep the cache and the watches after a fault that may be temporary.

        Also after one missing right: an API server that has just started does not know all roles yet.
        """
        is_refused = isinstance(error, ForbiddenError)
        last_cause, was_refused = self._unreadable.get(namespace, (None, False))
        if last_cause != error.cause:
            log.warning("Cannot list %s, will try again: %s", _named(namespace), error)
        if is_refused and was_refused and namespace in self._listed:
            self._listed.discard(namespace)
            forgotten = [self._cache.clear(kind, namespace) for kind in (*self.kinds, *self.optional_kinds)]
            for key in set().union(*forgotten):
                self._add(key, Priority.LOW)
        self._unreadable[namespace] = (error.cause, is_refused)

    def _is_forgotten(self, manifest: Manifest) -> bool:
        """Whether an object is in a namespace that cannot be listed any more."""
        namespace = None if None in self._scope else manifest["metadata"].get("namespace")
        return namespace in self._unreadable and namespace not in self._listed


def _priority(event: str, manifest: Manifest) -> Priority:
    """The priority of the keys of an event: normal for a pod, and where only the status of a child has changed."""
    kind, meta = kind_of(manifest), manifest["metadata"]
    observed = mapping(manifest, "status").get("observedGeneration")
    is_status = event == "MODIFIED" and observed is not None and observed == meta.get("generation")
    return Priority.NORMAL if kind == POD or (is_status and not kind.is_reconciled) else Priority.HIGH


def _why_unavailable(kind: Kind, error: ClusterError) -> str:
    if isinstance(error, ForbiddenError):
        return f"the operator has no right to list {kind.resource}. Update the chart, which grants it."
    missing = f"the cluster has no {kind.plural} of {kind.api_version}."
    return f"{missing} Install its CustomResourceDefinition; the operator finds it then."


def _named(namespace: str | None) -> str:
    return "the cluster" if namespace is None else f"namespace {namespace}"
