"""The `Cluster` protocol, and reads of logs and selected objects, as requests to a real API server.

A server-side apply removes the fields that its manager owned and no longer sends, unless others own them too. Who
creates an object owns its fields: also a tool that restores one without the managers that it had.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from copy import deepcopy

from inference_operator.controller import cluster
from inference_operator.kube.client import MERGE, Api
from inference_operator.manifest import (
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    POD,
    STATEFUL_SET,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.objects.child import ADOPT_ANNOTATION, BEGUN
from inference_operator.views.lookups import LogLookup

LIST_CHUNK = 100
"""Objects per page of a listing, which bounds its memory. With 500, as in Kubernetes' own clients, a restart with 300
resources takes 45 MiB more at its peak (`bench/reconcile.py --resources 300`)."""
ACCESS_REVIEW = Kind("authorization.k8s.io/v1", "LocalSubjectAccessReview")
NO_OBJECTS_VERSION = "1"
"""A resourceVersion that no object has: a store starts at revision 1, and each write adds one (etcd's API).

An apply with it creates an absent object and conflicts with any existing one. So a new object takes one request, and
no read before it.
"""


class KubeCluster:
    def __init__(
        self, api: Api, *, may_act: Callable[[], bool] = lambda: True, on_applied: Callable[[], None] | None = None
    ) -> None:
        self.api = api
        self._may_act = may_act
        self._on_applied = on_applied

    async def pages(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[cluster.Listing]:
        query = {"limit": str(LIST_CHUNK)} | ({"labelSelector": selector} if selector else {})
        async for page in self._page_bodies(kind, namespace, query):
            items = [_with_type(_without_managers(item), kind) for item in page["items"]]
            yield cluster.Listing(items, int(page["metadata"]["resourceVersion"]), namespace)

    async def get(self, ref: Ref) -> Manifest | None:
        try:
            return await self._request("GET", ref.path, ref.kind)
        except cluster.NotFoundError:
            return None

    async def create(self, ref: Ref, manifest: Manifest) -> Manifest:
        meta = {**manifest["metadata"], "resourceVersion": NO_OBJECTS_VERSION}
        return await self.apply(ref, {**manifest, "metadata": meta}, force=False)

    async def add(self, ref: Ref, manifest: Manifest) -> None:
        """Create a new object by POST, which needs only the right to create; raises `AlreadyExistsError`."""
        query = {"fieldManager": cluster.FIELD_MANAGER}
        await self._request("POST", ref.kind.path(ref.namespace), ref.kind, query=query, body=manifest)

    async def apply(self, ref: Ref, manifest: Manifest, *, force: bool) -> Manifest:
        query = {"fieldManager": cluster.FIELD_MANAGER, "force": "true" if force else "false"}
        live = await self._request("PATCH", ref.path, ref.kind, query=query, body=manifest)
        if self._on_applied:
            self._on_applied()
        return live

    async def adopt(self, ref: Ref, *, version: str, desired: Manifest) -> None:
        """Set owner and labels, and become the manager of the content; raises `ConflictError` and `RejectedError`.

        The API server records what the first request sets as an update, which a later apply would never remove. The
        second one makes it a part of what the operator has applied. Between them the annotation says that it is due.
        """
        live = await self.get(ref)
        if live is None or live["metadata"]["resourceVersion"] != version:
            raise cluster.ConflictError(f"{ref} has changed", request=f"PATCH {ref.path}")
        if not live["metadata"].get("ownerReferences"):
            given = {name: desired["metadata"][name] for name in ("labels", "ownerReferences")}
            live = await self._merge(ref, live, {**given, "annotations": {ADOPT_ANNOTATION: BEGUN}})
        managers = adopted_fields(live["metadata"].get("managedFields") or [], ref.kind, cluster.FIELD_MANAGER)
        await self._merge(ref, live, {"managedFields": managers})

    async def _merge(self, ref: Ref, live: Manifest, metadata: Manifest) -> Manifest:
        known = {name: live["metadata"][name] for name in ("uid", "resourceVersion")}
        self._check_leader("PATCH", ref.path)
        query, body = {"fieldManager": cluster.FIELD_MANAGER}, {"metadata": {**known, **metadata}}
        try:
            return await self.api.request("PATCH", ref.path, ref.kind, query=query, body=body, patch=MERGE)
        except cluster.NotFoundError as error:
            raise cluster.ConflictError(error.cause, request=f"PATCH {ref.path}") from error

    async def delete(self, ref: Ref, *, uid: str, version: str | None = None, grace_seconds: int | None = None) -> None:
        preconditions = {"uid": uid, **({"resourceVersion": version} if version else {})}
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": preconditions,
            "propagationPolicy": "Background",  # a Job's pods would stay (Kubernetes 1.36, pkg/registry/batch/job)
            **grace,
        }
        await self._request("DELETE", ref.path, ref.kind, body=body)

    async def apply_status(self, ref: Ref, manifest: Manifest) -> Manifest | None:
        query = {"fieldManager": cluster.FIELD_MANAGER, "force": "true"}
        try:
            return await self._request("PATCH", f"{ref.path}/status", ref.kind, query=query, body=manifest)
        except (cluster.NotFoundError, cluster.ConflictError):
            return None

    async def may_write_status(self, account: str, namespace: str) -> bool:
        """Whether an account may write the status of InferenceDeployments in a namespace; raises `ForbiddenError`."""
        attributes = {
            "namespace": namespace,
            "verb": "patch",
            "group": INFERENCE_DEPLOYMENT.group,
            "resource": INFERENCE_DEPLOYMENT.plural,
            "subresource": "status",
        }
        spec = {"resourceAttributes": attributes, "user": account, "groups": groups_of(account)}
        review = {
            "apiVersion": ACCESS_REVIEW.api_version,
            "kind": ACCESS_REVIEW.name,
            "metadata": {"namespace": namespace},
            "spec": spec,
        }
        answer = await self._request("POST", ACCESS_REVIEW.path(namespace), ACCESS_REVIEW, body=review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def read_log(self, look: LogLookup, *, lines: int, size: int) -> str:
        ref = Ref(POD, look.namespace, look.pod)
        query = {
            "container": look.container,
            "previous": "true" if look.previous else "false",
            "tailLines": str(lines),
            "limitBytes": str(size),
        }
        self._check_leader("GET", f"{ref.path}/log")
        return await self.api.text(f"{ref.path}/log", ref.kind, query=query)

    async def each(
        self, kind: Kind, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> AsyncIterator[Manifest]:
        """Every object of a kind that the selectors match; at most one page is held at a time.

        With a field selector the result is small. It comes unpaged from the API server's cache, because only the cache
        has an index of fields (kubernetes/kubernetes v1.36.3, pkg/registry/core/pod/strategy.go, Indexers).
        """
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        paging = {"resourceVersion": "0"} if fields else {"limit": str(LIST_CHUNK)}
        query = paging | {name: text for name, text in selectors.items() if text}
        async for page in self._page_bodies(kind, namespace, query):
            for item in page["items"]:
                yield _with_type(item, kind)

    async def _page_bodies(
        self, kind: Kind, namespace: str | None, query: Mapping[str, str]
    ) -> AsyncIterator[Manifest]:
        following: str | None = ""
        while following is not None:
            parameters = {**query, "continue": following} if following else query
            page = await self._request("GET", kind.path(namespace), kind, query=parameters)
            if "items" not in page:
                raise cluster.ClusterError("the answer is no list", request=f"GET {kind.path(namespace)}")
            yield page
            following = page["metadata"].get("continue") or None

    async def _request(
        self,
        method: str,
        path: str,
        kind: Kind,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
    ) -> Manifest:
        self._check_leader(method, path)
        return await self.api.request(method, path, kind, query=query, body=body)

    def _check_leader(self, method: str, path: str) -> None:
        if not self._may_act():
            raise cluster.NotLeaderError(f"{method} {path}: not sent, because another process may hold the Lease")


def groups_of(account: str) -> list[str]:
    """The groups of a ServiceAccount's requests (Kubernetes documentation of 1.36, Authenticating)."""
    parts = account.split(":")
    is_service_account = parts[:2] == ["system", "serviceaccount"] and len(parts) > len(("system", "serviceaccount"))
    own = ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}"] if is_service_account else []
    return [*own, "system:authenticated"]


def _without_managers(item: Manifest) -> Manifest:
    """Without managedFields, half of an object."""
    item["metadata"].pop("managedFields", None)
    return item


def _with_type(item: Manifest, kind: Kind) -> Manifest:
    """An item of a list with apiVersion and kind, which lists omit."""
    return {**item, "apiVersion": kind.api_version, "kind": kind.name}


_METADATA, _ANNOTATIONS, _OWN_PREFIX = "f:metadata", "f:annotations", "f:inference-operator.dev/"
_CONTENT: Mapping[str, Sequence[str]] = {
    DEPLOYMENT.name: ("f:spec", "f:template"),
    STATEFUL_SET.name: ("f:spec", "f:template"),
    CONFIG_MAP.name: ("f:data",),
}
"""The part of a kind that the operator writes as a whole, and that merges the items of several managers. All other
parts may have fields of other controllers, such as finalizers, classes and source ranges of load balancers."""


def adopted_fields(entries: Sequence[Manifest], kind: Kind, manager: str) -> list[Manifest]:
    """The entries after an object was adopted, so that the next apply removes what its manager does not send.

    - The manager gets the annotations with the operator's prefix, and what it has written other than by an apply.
    - If it has never applied the object, it gets the content of a workload or ConfigMap too. Otherwise it still owns
      what it has written, and the fields of others are theirs.
    - Other fields that were written through a subresource stay with their managers. So do those of another version of
      the kind, in which fields may have other names.

    Args:
        entries: `metadata.managedFields` of a live object.
        kind: its kind, in the version in which the manager applies it.
    """
    known = next((entry for entry in entries if _is_apply_of(entry, manager)), None)
    content = _CONTENT.get(kind.name) if known is None else None
    fields: Manifest = deepcopy(known["fieldsV1"]) if known else {}
    others = [deepcopy(entry) for entry in entries if entry is not known]
    for other in others:
        source = other.get("fieldsV1") or {}
        is_alike = not other.get("subresource") and other.get("apiVersion") == kind.api_version
        if is_alike and other.get("manager") == manager:
            _add(fields, source)
            source.clear()
        _move_annotations(source, fields)
        if is_alike and content:
            _move(source, fields, content)
    kept = [other for other in others if other.get("fieldsV1")]
    own = {"manager": manager, "operation": "Apply", "apiVersion": kind.api_version, "fieldsType": "FieldsV1"}
    return [*kept, {**own, **(known or {}), "fieldsV1": fields}] if fields else kept


def _is_apply_of(entry: Manifest, manager: str) -> bool:
    return (entry.get("manager"), entry.get("operation")) == (manager, "Apply") and not entry.get("subresource")


def _move_annotations(source: Manifest, target: Manifest) -> None:
    annotations = (source.get(_METADATA) or {}).get(_ANNOTATIONS) or {}
    for name in [annotation for annotation in annotations if annotation.startswith(_OWN_PREFIX)]:
        _move(source, target, (_METADATA, _ANNOTATIONS, name))


def _move(source: Manifest, target: Manifest, path: Sequence[str]) -> None:
    """Move what is at a path, if anything is there; nothing is left of parents that are empty then."""
    name, *below = path
    if name not in source:
        return
    if below:
        _move(source[name], target.setdefault(name, {}), below)
        if not source[name]:
            del source[name]
        if not target[name]:
            del target[name]
    else:
        _add(target.setdefault(name, {}), source.pop(name))


def _add(fields: Manifest, more: Manifest) -> None:
    for name, below in more.items():
        _add(fields.setdefault(name, {}), below)
