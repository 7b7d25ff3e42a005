"""The nodes with GPUs, from watches and listings. Of other nodes, those that are leaving are known by name."""

from collections.abc import AsyncIterable, Mapping, Sequence

from inference_operator.controller.cached_object import version_of
from inference_operator.controller.cluster import Listing
from inference_operator.manifest import Manifest
from inference_operator.planning.gpu_offers import has_gpus
from inference_operator.views.draining_node import DrainingNode, draining_node
from inference_operator.views.node import NodeView, node_view


class NodeStore:
    """Nodes by name. Before the first listing it is unknown whether there are any.

    Versions only grow: an event that is older than the stored node, for example from before a listing, is ignored.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, NodeView]] | None = None
        self._sorted: tuple[NodeView, ...] = ()
        self._leaving: Mapping[str, DrainingNode] = {}
        self._sees = True

    @property
    def leaving(self) -> Mapping[str, DrainingNode] | None:
        """The nodes that are leaving, with GPUs or without, by name; None if nodes cannot be listed."""
        return None if self._known is None or not self._sees else self._leaving

    @property
    def nodes(self) -> Sequence[NodeView] | None:
        """All nodes with GPUs, by name; None if nodes cannot be listed."""
        return None if self._known is None else self._sorted

    def put(self, manifest: Manifest) -> bool:
        """Store a node; returns whether that changes for which GPUs engines could be sized."""
        node, version = node_view(manifest), version_of(manifest)
        known = dict(self._known or {})
        previous = known.get(node.name)
        if previous is not None and previous[0] >= version:
            return False
        return self._store({**known, node.name: (version, node)})

    def forget(self, manifest: Manifest) -> bool:
        """Remove a deleted node; returns the same as `put`."""
        name = manifest["metadata"]["name"]
        return self._store({other: node for other, node in (self._known or {}).items() if other != name})

    def hide(self) -> None:
        """Forget which nodes are leaving: nodes cannot be listed any more. Their GPUs stay, for sizes do not change."""
        self._sees = False

    async def replace(self, pages: AsyncIterable[Listing]) -> bool:
        """Make the store equal to a complete listing; returns the same as `put`."""
        listed = [(version_of(item), node_view(item)) async for page in pages for item in page.items]
        self._sees = True
        return self._store({view.name: (version, view) for version, view in listed})

    def _store(self, nodes: dict[str, tuple[int, NodeView]]) -> bool:
        found = ((view, draining_node(view)) for _, view in nodes.values())
        self._leaving = {view.name: leaving for view, leaving in found if leaving}
        self._known = {name: node for name, node in nodes.items() if has_gpus(node[1]) or name in self._leaving}
        views = tuple(view for name in sorted(self._known) if has_gpus(view := self._known[name][1]))
        changed = views != self._sorted
        self._sorted = views
        return changed
