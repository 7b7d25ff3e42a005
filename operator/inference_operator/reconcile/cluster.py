"""What the reconciler asks of a cluster: six verbs. The real API server and the tests' memory both have them."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from inference_operator.manifest import Kind, Manifest, Ref

FIELD_MANAGER = "inference-operator"
"""The name under which fields are owned in server-side apply."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of a kind as they were at one moment, in one namespace or in all: a page of them, or all."""

    items: Sequence[Manifest]
    version: int
    """The resourceVersion of that moment; comparable since Kubernetes 1.35 (KEP-5504)."""
    namespace: str | None = None
    """The namespace that was listed; None: all of them."""


class ClusterError(Exception):
    """A request that the API server did not carry out, or of which nobody knows whether it did.

    Args:
        cause: why, in a phrase for users.
        request: what was asked, for logs.
        retry_after: seconds for which the API server does not want to be asked again.

    Examples:
        >>> str(ClusterError("HTTP 503: overloaded", request="PATCH /api/v1/pods"))
        'PATCH /api/v1/pods: HTTP 503: overloaded'
    """

    def __init__(self, cause: str, *, request: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{request}: {cause}" if request else cause)
        self.cause = cause
        self.retry_after = retry_after


class NotFoundError(ClusterError):
    """There is no such object."""


class ConflictError(ClusterError):
    """The object is not the one that was meant, or somebody else owns its fields."""


class RejectedError(ClusterError):
    """The API server, a quota or an admission policy refuses the object as it is."""


class ForbiddenError(RejectedError):
    """The operator has no right to this."""


class NotLeaderError(Exception):
    """Nothing was asked, because another process may be at work by now: no round goes on."""


class Cluster(Protocol):
    """The verbs. Every one may raise `ClusterError` for a fault, and what its description names."""

    def pages(self, kind: Kind, *, namespace: str | None = None, selector: str | None = None) -> AsyncIterator[Listing]:
        """All objects of a kind in one namespace, or (None) in all of them; at least one page, all of one moment."""

    async def get(self, ref: Ref) -> Manifest | None:
        """One object, or None."""

    async def create(self, ref: Ref, manifest: Manifest) -> Manifest:
        """Server-side apply of what is new; raises `ConflictError` where that name is taken, and `RejectedError`."""

    async def apply(self, ref: Ref, manifest: Manifest, *, force: bool) -> Manifest:
        """Server-side apply; raises `ConflictError` and `RejectedError`."""

    async def delete(self, ref: Ref, *, uid: str, version: str | None = None, grace_seconds: int | None = None) -> None:
        """Delete what has that uid (and resourceVersion); raises `NotFoundError` and `ConflictError`.

        The grace is how long its processes may take to end; None leaves it to the object.
        """

    async def apply_status(self, ref: Ref, manifest: Manifest) -> Manifest | None:
        """Server-side apply of the status to the resourceVersion it names; None where the object is no longer that."""
