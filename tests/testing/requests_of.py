"""Single requests to a real API server with a token, as somebody sends them who has stolen it."""

import base64
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml

from e2e.localkube.audit_log import ATTACKER
from inference_operator.manifest import Manifest

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Answer:
    """The status code of an answer and what it says."""

    code: int
    message: str

    @property
    def accepted(self) -> bool:
        """Whether the request was carried out."""
        return self.code < 300


class RequestsOf:
    """Sends requests as the ServiceAccount of a kubeconfig.

    Args:
        kubeconfig: with a token in it.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._server = cluster["server"]
        self._token = config["users"][0]["user"]["token"]
        self._pool = urllib3.PoolManager(ssl_context=ssl.create_default_context(cadata=authority))

    def post(self, path: str, body: Manifest) -> Answer:
        """Create an object."""
        return self._send("POST", path, body)

    def patch(self, path: str, body: Manifest, content: str = MERGE) -> Answer:
        """Change an object."""
        return self._send("PATCH", path, body, content)

    def delete(self, path: str) -> Answer:
        """Delete an object."""
        return self._send("DELETE", path)

    def get(self, path: str) -> Answer:
        """Read an object."""
        return self._send("GET", path)

    def _send(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Answer:  # noqa: ANN401 - JSON
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content, "User-Agent": ATTACKER}
        sent = None if body is None else json.dumps(body)
        found = self._pool.request(method, f"{self._server}{path}", headers=headers, body=sent, retries=False)
        text = found.data.decode(errors="replace")
        try:
            return Answer(found.status, json.loads(text).get("message", ""))
        except ValueError:
            return Answer(found.status, text)
