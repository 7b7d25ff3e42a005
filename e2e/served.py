"""A model that is served on a real node, as the tests use it."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e import stack
from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import LocalCluster
from e2e.waiting import eventually

_ANSWER_SECONDS = 60
_GONE_SECONDS = 200
"""An engine's and a router's longest grace period, and a margin."""
_DISCOVERY_SECONDS = 120
"""How long a router may take on a busy machine to send requests to an engine that is ready."""
_RECORD_SECONDS = 5
"""A record's life in the cluster's DNS: by then every router knows what one of them knows."""
PROMPT = "Tell me about otters"


@dataclass(frozen=True, slots=True)
class Served:
    """One InferenceDeployment of the cluster."""

    cluster: LocalCluster
    name: str
    namespace: str = "default"

    @property
    def address(self) -> str:
        """Where its Service answers."""
        return stack.address(self.cluster, self.name, self.namespace)

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess's own name
        """What kubectl prints, in its namespace."""
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, input=input)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an answer of its Service."""
        return _answer(f"http://{self.address}{path}", None)

    def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, str]:
        """Status and text of an answer to a JSON body."""
        return _answer(f"http://{self.address}{path}", json.dumps(body).encode())

    def complete(self, prompt: str = PROMPT, **more: Any) -> str:  # noqa: ANN401 - any JSON
        """The text of one completion; anything but a good answer is an error."""
        body = {"model": self.name, "prompt": prompt, "max_tokens": 8, "temperature": 0, **more}
        status, text = self.post("/v1/completions", body)
        if status != 200:  # noqa: PLR2004 - the only good one
            raise ClusterError(f"{self.name} answers {status}: {text}")
        answer: str = json.loads(text)["choices"][0]["text"]
        return answer

    def pods(self, component: str) -> dict[str, str]:
        """Pods of a component: name and address."""
        return stack.pods(self.cluster, self.name, component, self.namespace)

    def scale(self, replicas: int) -> None:
        """Scale as users do, and wait until exactly so many engines are ready."""
        self.kubectl("scale", f"infd/{self.name}", f"--replicas={replicas}")
        stack.wait_engines(self.cluster, self.name, replicas, self.namespace)

    def await_routers(self, replicas: int) -> None:
        """Wait until exactly so many routers serve, and none is stopping."""
        self.kubectl("rollout", "status", f"deployment/{self.name}-router", "--timeout=120s")
        eventually(
            lambda: len(self.pods("router")) == replicas, seconds=180, what=f"{replicas} routers, and none stopping"
        )

    def await_gone(self) -> None:
        """Wait until nothing is left of it."""
        kinds = "deployments,replicasets,pods,services,endpointslices,configmaps,poddisruptionbudgets,jobs"
        selector = f"--selector=inference-operator.dev/name={self.name}"
        eventually(
            lambda: not self.kubectl("get", kinds, selector, "--output=name"),
            seconds=_GONE_SECONDS,
            what=lambda: f"still there: {self.kubectl('get', kinds, selector, '--output=name')}",
        )

    def answered(self) -> dict[str, float]:
        """Completions that each engine has answered since it started, by its pod."""
        return {pod: _metric(address, "vllm:request_success_total") for pod, address in self.pods("engine").items()}

    def await_all_in_use(self) -> None:
        """Wait, under load, until every router sends requests to every engine."""
        before = self.answered()
        eventually(lambda: self._all_answered_more(before), seconds=_DISCOVERY_SECONDS, what="all engines answer")
        time.sleep(_RECORD_SECONDS)

    def _all_answered_more(self, before: Mapping[str, float]) -> bool:
        after = self.answered()
        return all(after[pod] > answered for pod, answered in before.items())

    def running(self, pod: str) -> float:
        """Requests that an engine is working on."""
        return _metric(self.pods("engine")[pod], "vllm:num_requests_running")


def _metric(address: str, name: str) -> float:
    _, text = _answer(f"http://{address}:8000/metrics", None)
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name}{{"))


def _answer(url: str, body: bytes | None) -> tuple[int, str]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - a cluster's own
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - as above
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
