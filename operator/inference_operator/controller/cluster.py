"""The reconciler's interface to a cluster: eight methods. The tests' in-memory cluster has the same ones."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from inference_operator.manifest import Kind, Manifest, Ref

FIELD_MANAGER = "inference-operator"


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of a kind at one resourceVersion, in one namespace or in all of them: one page of a listing, or all."""

    items: Sequence[Manifest]
    version: int
    """The resourceVersion of the listing; comparable since Kubernetes 1.35 (KEP-5504)."""
    namespace: str | None = None
    """The namespace that was listed; None means all of them."""

    def covers(self, ref: Ref, kind: Kind) -> bool:
        return ref.kind == kind and self.namespace in (None, ref.namespace)


class ClusterError(Exception):
    """A request that failed or whose outcome is unknown: the cause in a phrase for users, the rest for logs."""

    def __init__(self, cause: str, *, request: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{request}: {cause}" if request else cause)
        self.cause = cause
        self.retry_after = retry_after


class NotFoundError(ClusterError):
    """There is no such object."""


class ConflictError(ClusterError):
    """The object has another uid or resourceVersion than the request names, or another manager owns its fields."""


class AlreadyExistsError(ConflictError):
    """There is an object of this name."""


class RejectedError(ClusterError):
    """The API server, a quota or an admission policy refuses the object."""


class ForbiddenError(RejectedError):
    """The operator has no right to this."""


class NotLeaderError(Exception):
    """No request was sent, because another process may hold the Lease; the reconcile ends."""


class Cluster(Protocol):
    """The requests of the reconciler. Each may raise `ClusterError`, and the subclasses that its docstring names."""

    def pages(self, kind: Kind, *, namespace: str | None = None, selector: str | None = None) -> AsyncIterator[Listing]:
        """List a kind in one namespace, or (None) in all of them: at least one page, all at one resourceVersion."""

    async def get(self, ref: Ref) -> Manifest | None:
        """One object, or None."""

    async def create(self, ref: Ref, manifest: Manifest) -> Manifest:
        """Server-side apply of a new object; raises `ConflictError` if the name is taken, and `RejectedError`."""

    async def add(self, ref: Ref, manifest: Manifest) -> None:
        """Create a new object whose content is not read back; raises `AlreadyExistsError` if the name is taken."""

    async def apply(self, ref: Ref, manifest: Manifest, *, force: bool) -> Manifest:
        """Server-side apply; raises `ConflictError` and `RejectedError`."""

    async def adopt(self, ref: Ref, *, version: str, desired: Manifest) -> None:
        """Give the object of that resourceVersion its owner and labels, and become the manager of its content.

        So the next apply removes content that others have written. Raises `ConflictError` if it has changed or is gone,
        and `RejectedError`.
        """

    async def delete(self, ref: Ref, *, uid: str, version: str | None = None, grace_seconds: int | None = None) -> None:
        """Delete the object with that uid (and resourceVersion); raises `NotFoundError` and `ConflictError`.

        `grace_seconds` is the time that its processes have to end; None means the object's own grace period.
        """

    async def apply_status(self, ref: Ref, manifest: Manifest) -> Manifest | None:
        """Server-side apply of the status to the resourceVersion in it; None if the object has changed since."""
