"""Requests to a real API server through one kept connection: a kubectl process for each costs 0.1 s of a core."""

import base64
import json
import ssl
import tempfile
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

from e2e.localkube.errors import ClusterError
from inference_operator.manifest import (
    CHILD_KINDS,
    INFERENCE_DEPLOYMENT,
    NETWORK_POLICY,
    OPTIONAL_KINDS,
    POD,
    Kind,
    Manifest,
)

KINDS = {
    name: kind
    for kind in (*CHILD_KINDS, *OPTIONAL_KINDS, INFERENCE_DEPLOYMENT, NETWORK_POLICY, POD)
    for name in (kind.name.lower(), kind.plural, f"{kind.plural}.{kind.api_version.partition('/')[0]}")
} | {"infd": INFERENCE_DEPLOYMENT, "pdb": next(kind for kind in CHILD_KINDS if kind.name == "PodDisruptionBudget")}
"""What kubectl calls the kinds that tests wait for."""
APPLIER = "kubectl-client-side-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NAMESPACES = "/api/v1/namespaces"


def kind_named(what: str) -> Kind | None:
    """The kind that kubectl calls so, with or without its group."""
    return KINDS.get(what) or KINDS.get(what.partition(".")[0])


class Reader:
    """Reads objects, makes namespaces, and writes as kubectl does, as whom a kubeconfig names.

    Args:
        kubeconfig: with a client certificate in it.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
            both.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            both.flush()
            context.load_cert_chain(both.name)
        self._server = cluster["server"]
        self._pool = urllib3.PoolManager(ssl_context=context)

    def one(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """An object, or nothing if there is none."""
        found: Manifest | None = self._read(f"{kind.path(namespace)}/{name}")
        return found

    def all(self, kind: Kind, namespace: str | None, selector: str = "") -> list[Manifest]:
        """The objects that a label selector chooses, in a namespace or (None) in all of them."""
        found = self._read(f"{kind.path(namespace)}?{urlencode({'labelSelector': selector})}")
        return list(found["items"]) if found else []

    def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        self._request("POST", NAMESPACES, HTTPStatus.CREATED, {"metadata": {"name": name}})

    def delete_namespace(self, name: str) -> None:
        """Begin to delete a namespace with all that is in it, if it is there."""
        self._request("DELETE", f"{NAMESPACES}/{name}", HTTPStatus.OK)

    def apply(self, kind: Kind, namespace: str, manifest: Manifest, *, user: str = "") -> None:
        """Do what `kubectl apply` does with a custom resource: create it, or send what differs from the last apply.

        Args:
            kind: of the object.
            namespace: of the object.
            manifest: the object.
            user: whom to impersonate.
        """
        meta = {"annotations": {}, **manifest["metadata"], "namespace": namespace}
        applied = {**manifest, "metadata": meta}
        noted = {**meta["annotations"], LAST_APPLIED: json.dumps(applied, separators=(",", ":")) + "\n"}
        body = {**applied, "metadata": {**meta, "annotations": noted}}
        path, query = kind.path(namespace), "?" + urlencode({"fieldManager": APPLIER, "fieldValidation": "Strict"})
        live = self._request("GET", f"{path}/{meta['name']}", HTTPStatus.OK, user=user)
        if live is None:
            self._request("POST", path + query, HTTPStatus.CREATED, body, user=user)
            return
        last = json.loads(live["metadata"].get("annotations", {}).get(LAST_APPLIED, "{}"))
        if changes := _three_way(last, body, live):
            self._request("PATCH", f"{path}/{meta['name']}{query}", HTTPStatus.OK, changes, user=user)

    def patch(self, kind: Kind, namespace: str, name: str, patch: Manifest, *, user: str = "") -> None:
        """Do what `kubectl patch --type=merge` does."""
        path = f"{kind.path(namespace)}/{name}?{urlencode({'fieldManager': 'kubectl-patch'})}"
        self._request("PATCH", path, HTTPStatus.OK, patch, user=user)

    def terminating_namespaces(self) -> list[Manifest]:
        """Those that are being deleted."""
        query = urlencode({"fieldSelector": "status.phase=Terminating"})
        return list(self._read(f"{NAMESPACES}?{query}")["items"])

    def _read(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        return self._request("GET", path, HTTPStatus.OK)

    def _request(
        self, method: str, path: str, status: HTTPStatus, body: Manifest | None = None, *, user: str = ""
    ) -> Any:  # noqa: ANN401 - any JSON
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Content-Type": content, **({"Impersonate-User": user} if user else {})}
        answer = self._pool.request(method, self._server + path, json=body, headers=headers)
        if answer.status == HTTPStatus.NOT_FOUND and body is None:
            return None
        if answer.status != status:
            # The API server's words, without the JSON around them.
            raise ClusterError(json.loads(answer.data)["message"])
        return json.loads(answer.data)


@cache
def reader(kubeconfig: Path) -> Reader:
    """The only reader of a kubeconfig in this process."""
    return Reader(kubeconfig)


def _three_way(last: Manifest, wanted: Manifest, live: Manifest) -> Manifest:
    """The merge patch that removes what only the last apply had, and sets what is not as wanted.

    Examples:
        >>> _three_way({"a": 1, "b": 2}, {"a": 1, "c": {"d": 4}}, {"a": 5, "b": 2, "c": {"d": 3, "e": 6}})
        {'b': None, 'a': 1, 'c': {'d': 4}}
    """
    patch: Manifest = {name: None for name in last if name not in wanted and name in live}
    for name, value in wanted.items():
        there = live.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            before = last.get(name)
            if inner := _three_way(before if isinstance(before, dict) else {}, value, there):
                patch[name] = inner
        elif value != there:
            patch[name] = value
    return patch


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()
