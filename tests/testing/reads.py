"""Reads of a real API server through one kept connection: a kubectl process for each costs 0.1 s of a core."""

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

from e2e.cluster.errors import ClusterError
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


def kind_named(what: str) -> Kind | None:
    """The kind that kubectl calls so, with or without its group."""
    return KINDS.get(what) or KINDS.get(what.partition(".")[0])


class Reader:
    """Reads objects as whom a kubeconfig names.

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

    def all(self, kind: Kind, namespace: str, selector: str = "") -> list[Manifest]:
        """The objects that a label selector chooses."""
        found = self._read(f"{kind.path(namespace)}?{urlencode({'labelSelector': selector})}")
        return list(found["items"]) if found else []

    def _read(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        answer = self._pool.request("GET", self._server + path)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.OK:
            raise ClusterError(f"GET {path}: {answer.status} {answer.data.decode()}")
        return json.loads(answer.data)


@cache
def reader(kubeconfig: Path) -> Reader:
    """The only reader of a kubeconfig in this process."""
    return Reader(kubeconfig)


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()
