"""An in-memory cluster with only those rules of the API server that the operator requires.

There is no validation, no defaulting and no controller: what is applied is stored. The rules are tested by
`tests/testing/cluster_contract.py`, and the same suite runs against a real API server.
"""

import itertools
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import orjson

from inference_operator.controller.cluster import (
    FIELD_MANAGER,
    AlreadyExistsError,
    ConflictError,
    Listing,
    NotFoundError,
)
from inference_operator.manifest import DEPLOYMENT, DISRUPTION_BUDGET, POD, Kind, Manifest, Ref
from inference_operator.objects.child import ADOPT_ANNOTATION, BEGUN
from inference_operator.views.lookups import LogLookup
from tests.testing.faults import Fault, Faults
from tests.testing.fields import Fields, Path, fields_of, manifest_of, overlaps
from tests.testing.selectors import has_fields, is_labelled

SYSTEM_METADATA = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields"}
)
"""What the API server writes into metadata by itself."""

WITH_GENERATION = frozenset({DEPLOYMENT, DISRUPTION_BUDGET})
"""Beside the resources that the operator reconciles."""
BIRTH, DEATH = "2026-01-02T03:04:05Z", "2026-01-02T03:14:05Z"
PERSON = "kubectl-edit"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the operator."""

    verb: str
    ref: Ref


@dataclass(slots=True)
class _Stored:
    uid: str
    version: int
    fields: Fields
    owners: dict[str, set[Path]] = field(default_factory=dict)
    generation: int = 1
    deleting: bool = False
    body: bytes = b""
    """The object of these fields as JSON: whoever reads it gets a copy of its own."""


Backup: TypeAlias = tuple[dict[Ref, _Stored], int]
"""All objects, and the version."""


class MemoryCluster:
    """The `Cluster` protocol, and methods that act as people, controllers and faults.

    `writes` and `reads` are the operator's requests, in order. `events` are the watch events, in order.
    """

    def __init__(self) -> None:
        self.writes: list[Request] = []
        self.reads: list[Request] = []
        self.requests: list[Request] = []
        """Writes and reads of one object, in order."""
        self.events: deque[tuple[str, Manifest]] = deque()
        self.created: dict[Ref, str] = {}
        """Creation times of objects that are not `BIRTH`."""
        self._observers: list[Callable[[Ref, Manifest], None]] = []
        self._objects: dict[Ref, _Stored] = {}
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self._version = next(self._versions)
        self._faults = Faults()
        self._logs: dict[str, str] = {}

    # The operator's requests.

    async def pages(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[Listing]:
        found = self.each(kind, namespace=namespace, labels=selector)
        items = [_without(one, {"managedFields"}) async for one in found]
        yield Listing(items, self._version, namespace)

    async def each(
        self, kind: Kind, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> AsyncIterator[Manifest]:
        self.reads.append(Request("list", Ref(kind, namespace or "", fields or "")))
        for ref in sorted(ref for ref in self._objects if ref.kind == kind and namespace in (None, ref.namespace)):
            found = self._manifest(ref)
            if is_labelled(found, labels) and has_fields(found, fields):
                yield found

    async def get(self, ref: Ref) -> Manifest | None:
        self.reads.append(Request("get", ref))
        return self._attempt("get", ref, lambda: self.peek(ref))

    async def read_log(self, look: LogLookup, *, lines: int, size: int) -> str:
        """The log that `say` has set; without it the container has no log."""
        self.reads.append(Request("log", Ref(POD, look.namespace, look.pod)))
        if look.pod not in self._logs:
            raise NotFoundError(f"pod {look.pod} not found")
        return "".join(self._logs[look.pod].splitlines(keepends=True)[-lines:])[:size]

    async def create(self, ref: Ref, manifest: Manifest) -> Manifest:
        """Counts as a write if the object is created, and not if the name is taken."""
        if ref in self._objects:
            raise self._attempt("create", ref, lambda: AlreadyExistsError(f"{ref} exists"))
        return self._write("apply", ref, lambda: self._apply(ref, manifest, FIELD_MANAGER, force=False))

    async def add(self, ref: Ref, manifest: Manifest) -> None:
        """As `create`, of an object of a kind that the operator does not watch."""
        await self.create(ref, manifest)
        self.events.pop()

    async def apply(self, ref: Ref, manifest: Manifest, *, force: bool) -> Manifest:
        return self._write("apply", ref, lambda: self._apply(ref, manifest, FIELD_MANAGER, force=force))

    async def adopt(self, ref: Ref, *, version: str, desired: Manifest) -> None:
        self._write("adopt", ref, lambda: self._adopt(ref, version, desired["metadata"]))

    async def delete(
        self,
        ref: Ref,
        *,
        uid: str,
        version: str | None = None,
        grace_seconds: int | None = None,  # noqa: ARG002 - no process runs here
    ) -> None:
        self._write("delete", ref, lambda: self._delete(ref, uid, version))

    async def may_write_status(self, account: str, namespace: str) -> bool:  # noqa: ARG002 - of `KubeCluster`
        """There is no other operator."""
        return False

    async def apply_status(self, ref: Ref, manifest: Manifest) -> Manifest | None:
        return self._write("status", ref, lambda: self._apply_status(ref, manifest))

    # Acts of others, and reads of tests. They do not count as requests of the operator.

    def peek(self, ref: Ref) -> Manifest | None:
        return self._manifest(ref) if ref in self._objects else None

    def live(self) -> dict[Ref, Manifest]:
        return {ref: self._manifest(ref) for ref in self._objects}

    def observe(self, on_stored: Callable[[Ref, Manifest], None]) -> None:
        """Call this with every object that is created or changed from now on, whoever does so."""
        self._observers.append(on_stored)

    def apply_as(self, manager: str, manifest: Manifest) -> Manifest:
        """Server-side apply by another field manager, by force."""
        return self._apply(Ref.of(manifest), manifest, manager, force=True)

    def edit(self, ref: Ref, change: Callable[[Manifest], None], *, manager: str = PERSON) -> Manifest:
        """Change an object as `kubectl edit` does; the manager owns the changed fields from then on."""
        stored = self._stored(ref)
        edited = self._manifest(ref)
        change(edited)
        wanted = fields_of(_copied(_without(edited, SYSTEM_METADATA)))
        touched = {p for p in wanted if stored.fields.get(p, _ABSENT) != wanted[p]}
        gone = {p for p in stored.fields if p not in wanted}
        for owned in stored.owners.values():
            owned.difference_update(touched | gone)
        stored.owners.setdefault(manager, set()).update(touched)
        return self._store(ref, stored, wanted)

    def say(self, pod: str, log: str) -> None:
        """Set the log of a pod's container."""
        self._logs[pod] = log

    def set_status(self, ref: Ref, status: Manifest) -> Manifest:
        """Write the status as an object's controller does."""

        def change(manifest: Manifest) -> None:
            manifest["status"] = status

        return self.edit(ref, change, manager="controller")

    def remove(self, ref: Ref) -> None:
        """Delete as `kubectl delete` does: an object with finalizers stays until they are gone."""
        self._delete(ref, self._stored(ref).uid)

    def collect_garbage(self) -> None:
        """Delete every object whose owners are all gone, until none is left."""
        while orphans := [ref for ref in self._objects if self._is_orphan(ref)]:
            for ref in orphans:
                self.remove(ref)

    def fail_next(self, error: BaseException, *, skip: int = 0, took_effect: bool = False) -> None:
        """Let a write of the operator fail, after `skip` successful ones; it may take effect nevertheless."""
        self._faults.next_write(Fault(error, took_effect), skip=skip)

    def fail_at(self, number: int, error: BaseException, *, took_effect: bool = False) -> None:
        """Let the request of that number fail, counted from 1; it may take effect nevertheless."""
        self._faults.at(number, Fault(error, took_effect))

    def backup(self) -> Backup:
        """All objects and the version, as a snapshot of etcd has them."""
        return deepcopy(self._objects), self._version

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """Go back to a snapshot without any event, as `etcdutl snapshot restore` does.

        Args:
            backup: the snapshot.
            bump: by how much the version is above the largest one before (`--bump-revision`); 0 for that of the backup.
        """
        objects, version = backup
        self._objects = deepcopy(objects)
        self._version = self._version + bump if bump else version
        self._versions = itertools.count(self._version + 1)
        self.events.clear()

    # Implementation.

    def _write(self, verb: str, ref: Ref, act: Callable[[], Result]) -> Result:
        self.writes.append(Request(verb, ref))
        return self._attempt(verb, ref, lambda: self._faults.on_write(act))

    def _attempt(self, verb: str, ref: Ref, act: Callable[[], Result]) -> Result:
        self.requests.append(Request(verb, ref))
        return self._faults.on_request(len(self.requests), act)

    def _apply(self, ref: Ref, manifest: Manifest, manager: str, *, force: bool) -> Manifest:
        stored = self._objects.get(ref)
        uid = manifest["metadata"].get("uid")
        if uid is not None and (stored is None or stored.uid != uid):
            raise ConflictError(f"{ref}: uid mismatch: {uid}")
        kept = _copied(_without(manifest, SYSTEM_METADATA))
        body = {name: value for name, value in kept.items() if name != "status"}
        new = stored is None
        if stored is None:
            stored = _Stored(self._new_uid(), 0, {})
        fields = self._merged(ref, stored, fields_of(body), manager, force=force)
        return self._store(ref, stored, fields, new=new)

    def _adopt(self, ref: Ref, version: str, desired: Manifest) -> None:
        """The manager of the operator takes all fields, if it has none yet: objects of others are made by tests."""
        stored = self._objects.get(ref)
        if stored is None or str(stored.version) != version:
            raise ConflictError(f"{ref} has changed")
        if FIELD_MANAGER not in stored.owners:
            names = [name for name in stored.owners if not name.endswith(("/scale", "/status"))]
            stored.owners[FIELD_MANAGER] = set[Path]().union(*(stored.owners.pop(name) for name in names))
        given = {name: desired[name] for name in ("labels", "ownerReferences") if name in desired}
        begun = {ADOPT_ANNOTATION: BEGUN}

        def change(live: Manifest) -> None:
            live["metadata"] |= given
            live["metadata"]["annotations"] = {**(live["metadata"].get("annotations") or {}), **begun}

        self.edit(ref, change, manager=FIELD_MANAGER)

    def _new_uid(self) -> str:
        """Another one for each object of this cluster, and the same ones in each cluster."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, str(next(self._uids))))

    def _apply_status(self, ref: Ref, manifest: Manifest) -> Manifest | None:
        stored = self._objects.get(ref)
        if stored is None or str(stored.version) != manifest["metadata"]["resourceVersion"]:
            return None
        wanted = fields_of({"status": manifest.get("status", {})})
        return self._store(ref, stored, self._merged(ref, stored, wanted, f"{FIELD_MANAGER}/status", force=True))

    def _merged(self, ref: Ref, stored: _Stored, wanted: Fields, manager: str, *, force: bool) -> Fields:
        """Server-side apply: removes the fields that the manager owned and no longer sends, and sets those it sends."""
        others = {path: name for name, owned in stored.owners.items() if name != manager for path in owned}
        contested = {p for p in others if p in wanted and stored.fields[p] != wanted[p]}
        if contested and not force:
            names = sorted({others[path] for path in contested})
            raise ConflictError(f"{ref}: conflict with {', '.join(names)}")
        for owned in stored.owners.values():
            owned.difference_update(contested)
        dropped = stored.owners.get(manager, set()) - wanted.keys() - (others.keys() - contested)
        replaced = {p for p in stored.fields if p not in wanted and overlaps(p, wanted)}
        stored.owners[manager] = set(wanted)
        kept = {p: v for p, v in stored.fields.items() if p not in {*wanted, *dropped, *replaced}}
        return {**wanted, **kept}

    def _store(self, ref: Ref, stored: _Stored, fields: Fields, *, new: bool = False) -> Manifest:
        changed = {p for p in {*fields, *stored.fields} if fields.get(p, _ABSENT) != stored.fields.get(p, _ABSENT)}
        if not changed and not new:
            return self._manifest(ref)
        if not new and any(path[0] not in ("metadata", "status") for path in changed):
            stored.generation += 1
        stored.fields, stored.body = fields, orjson.dumps(manifest_of(fields))
        stored.version = self._next_version()
        self._objects[ref] = stored
        result = self._manifest(ref)
        for on_stored in self._observers:
            on_stored(ref, result)
        if stored.deleting and not result["metadata"].get("finalizers"):
            self._vanish(ref)
        else:
            self.events.append(("ADDED" if new else "MODIFIED", result))
        return result

    def _delete(self, ref: Ref, uid: str, version: str | None = None) -> None:
        stored = self._objects.get(ref)
        if stored is None:
            raise NotFoundError(f"{ref} not found")
        if stored.uid != uid:
            raise ConflictError(f"{ref}: uid mismatch: {uid}")
        if version not in (None, str(stored.version)):
            raise ConflictError(f"{ref}: resourceVersion mismatch: {version}")
        if not self._manifest(ref)["metadata"].get("finalizers"):
            self._vanish(ref)
        elif not stored.deleting:
            stored.deleting = True
            stored.version = self._next_version()
            self.events.append(("MODIFIED", self._manifest(ref)))

    def _vanish(self, ref: Ref) -> None:
        self._stored(ref).version = self._next_version()
        self.events.append(("DELETED", self._manifest(ref)))
        del self._objects[ref]

    def _next_version(self) -> int:
        self._version = next(self._versions)
        return self._version

    def _stored(self, ref: Ref) -> _Stored:
        if ref not in self._objects:
            raise NotFoundError(f"{ref} not found")
        return self._objects[ref]

    def _manifest(self, ref: Ref) -> Manifest:
        stored = self._objects[ref]
        result: Manifest = orjson.loads(stored.body)
        system: Manifest = {
            "uid": stored.uid,
            "resourceVersion": str(stored.version),
            "creationTimestamp": self.created.get(ref, BIRTH),
            "managedFields": [
                {"manager": name.removesuffix("/scale").removesuffix("/status")}
                | ({"subresource": "scale"} if name.endswith("/scale") else {})
                for name, owned in stored.owners.items()
                if owned
            ],
        }
        if ref.kind.is_reconciled or ref.kind in WITH_GENERATION:
            system["generation"] = stored.generation
        if stored.deleting:
            system["deletionTimestamp"] = DEATH
        result["metadata"] = {**result["metadata"], **system}
        return result

    def _is_orphan(self, ref: Ref) -> bool:
        owners = self._manifest(ref)["metadata"].get("ownerReferences") or ()
        living = {stored.uid for stored in self._objects.values()}
        return bool(owners) and not any(owner["uid"] in living for owner in owners) and not self._stored(ref).deleting


_ABSENT = object()


def _copied(manifest: Manifest) -> Manifest:
    result: Manifest = orjson.loads(orjson.dumps(manifest))
    return result


def _without(manifest: Manifest, names: Collection[str]) -> Manifest:
    kept = {name: value for name, value in manifest["metadata"].items() if name not in names}
    return {**manifest, "metadata": kept}
