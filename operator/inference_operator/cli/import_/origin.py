"""An object of another project, of which each field is taken over or reported."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from inference_operator.manifest import API_VERSION, KIND, Manifest

Path: TypeAlias = tuple[str | int, ...]
_Type = TypeVar("_Type")
OPERATOR_SETS = "the operator sets it."
BY_HAND = "it has no field here."
_ANNOTATIONS = ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration")
_BOOKKEEPING = {
    *(f"annotations.{name}" for name in _ANNOTATIONS),
    *("creationTimestamp", "generation", "managedFields", "namespace", "name", "resourceVersion", "selfLink", "uid"),
}
DEFAULTS: Mapping[str, object] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
    "revisionHistoryLimit": 10,
    "progressDeadlineSeconds": 600,
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
}
"""What the API server adds to Deployments and their pods (Kubernetes 1.36, `defaults.go` of apps/v1 and core/v1):
nobody asked for it, so nothing is said of it."""
MOST_DEPTH = 40
"""Levels of an object. Kubernetes' own are far below; deeper ones are reported as a whole."""


@dataclass(slots=True)
class ForeignObject:
    manifest: Manifest
    _used: set[Path] = field(default_factory=set)
    _left: dict[Path, str] = field(default_factory=dict)

    def look(self, kind: type[_Type], *path: str | int) -> _Type | None:
        """The value at a path, not counted as taken; None if there is none of this type."""
        value: object = self.manifest
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
                value = value[step]
            else:
                return None
        is_right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        return value if is_right else None  # type: ignore[return-value]

    def take(self, kind: type[_Type], *path: str | int) -> _Type | None:
        """The value at a path, counted as taken over; None if there is none of this type, and then it is reported."""
        value = self.look(kind, *path)
        if value is not None:
            self._used.add(path)
        return None if _is_default(path, value) else value

    def leave(self, why: str, *path: str | int) -> None:
        if path not in self._used and self.look(object, *path) is not None:
            self._left[path] = why

    def report(self) -> Iterator[tuple[str, str]]:
        for path, why in self._rest(self.manifest, (), 0):
            if not _is_bookkeeping(path):
                yield _shown(path), why

    def _rest(self, value: object, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
        if path in self._used or _is_default(path, value):
            return
        if path in self._left:
            yield path, self._left[path]
            return
        known = any(one[: len(path)] == path for one in (*self._used, *self._left))
        if not (known or len(path) <= 1) or depth > MOST_DEPTH or not isinstance(value, dict | list) or not value:
            if value not in (None, {}, []):
                yield path, BY_HAND
            return
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, part in steps:
            yield from self._rest(part, (*path, step), depth + 1)


def _is_default(path: Path, value: object) -> bool:
    return bool(path) and path[-1] in DEFAULTS and DEFAULTS[str(path[-1])] == value


def _is_bookkeeping(path: Path) -> bool:
    if path[0] in {"apiVersion", "kind", "status"}:
        return True
    return path[0] == "metadata" and ".".join(map(str, path[1:])) in _BOOKKEEPING


def _shown(path: Path) -> str:
    """A path as people write it; keys of others that a terminal should not get are hidden."""
    parts = (f"[{one}]" if isinstance(one, int) else one if str(one).isprintable() else "?" for one in path)
    return ".".join(map(str, parts)).replace(".[", "[")


@dataclass(slots=True)
class Draft:
    spec: Manifest = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)
    """Fields of the other object, each with why it is not in the manifest, or what was assumed."""

    def put(self, path: str, value: object) -> None:
        if value is None or value in ("", [], {}):
            return
        *parents, last = path.split(".")
        parent = self.spec
        for step in parents:
            parent = parent.setdefault(step, {})
        parent[last] = value

    def manifest(self, name: str, namespace: str) -> Manifest:
        """The manifest; a name with dots, which a Service cannot have, gets `-` for them."""
        metadata = {"name": name.replace(".", "-"), **({"namespace": namespace} if namespace else {})}
        ordered = {key: self.spec[key] for key in ("model", "engine") if key in self.spec}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {**ordered, **self.spec}}
