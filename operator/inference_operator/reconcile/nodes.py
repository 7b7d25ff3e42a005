"""The nodes with GPUs, as they were seen last; of all others nothing is kept."""

from collections.abc import AsyncIterable, Sequence

from inference_operator.manifest import Manifest
from inference_operator.observed.node import NodeView, node_view
from inference_operator.planning.gpu_offers import has_gpus
from inference_operator.reconcile.cluster import Listing
from inference_operator.reconcile.kept import version_of


class NodeStore:
    """Nodes by name; until they have been listed, nobody knows whether there are any.

    Versions only grow: what is older than what is known, such as an event from before a listing, is ignored.

    Examples:
        >>> NodeStore().nodes is None
        True
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, NodeView]] | None = None
        self._sorted: tuple[NodeView, ...] = ()

    @property
    def nodes(self) -> Sequence[NodeView] | None:
        """All of them in the order of their names; None where nodes cannot be seen."""
        return None if self._known is None else self._sorted

    def put(self, manifest: Manifest) -> bool:
        """Remember a node; returns whether that changes what engines could be sized for."""
        node, version = node_view(manifest), version_of(manifest)
        known = dict(self._known or {})
        before = known.get(node.name)
        if before is not None and before[0] >= version:
            return False
        return self._keep({**known, node.name: (version, node)})

    def forget(self, manifest: Manifest) -> bool:
        """Forget a node that was deleted; returns the same."""
        name = manifest["metadata"]["name"]
        return self._keep({known: one for known, one in (self._known or {}).items() if known != name})

    async def replace(self, pages: AsyncIterable[Listing]) -> bool:
        """Take a complete listing for the truth; returns the same."""
        found = [(version_of(one), node_view(one)) async for page in pages for one in page.items]
        return self._keep({view.name: (version, view) for version, view in found})

    def _keep(self, nodes: dict[str, tuple[int, NodeView]]) -> bool:
        self._known = {name: one for name, one in nodes.items() if has_gpus(one[1])}
        views = tuple(self._known[name][1] for name in sorted(self._known))
        changed = views != self._sorted
        self._sorted = views
        return changed
