"""Client and helper functions for one InferenceDeployment on a real node."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from e2e.deploy import stack
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

_ANSWER_SECONDS = 60
_GONE_SECONDS = 200
"""The longest grace period of engines and routers, and a margin."""
_DISCOVERY_SECONDS = 120
"""Limit until a router sends requests to a ready engine on a busy machine."""
_SAME_SECONDS = stack.RECORD_SECONDS + 1
"""TTL of a record in the cluster's DNS, and until HAProxy asks again: after it, all routers have the same addresses."""
PROMPT = "Tell me about otters"
_leaving: list["Served"] = []
"""Deleted resources whose pods may still run."""


@dataclass(frozen=True, slots=True)
class Served:
    """One InferenceDeployment of the cluster."""

    cluster: LocalCluster
    name: str
    namespace: str = "default"

    @property
    def address(self) -> str:
        """Address of its Service: `IP:port`."""
        return stack.address(self.cluster, self.name, self.namespace)

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess's own name
        """Run kubectl in its namespace; returns the standard output."""
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, input=input)

    def get(self, path: str) -> tuple[int, str]:
        """GET from its Service; returns the status and the body."""
        return _answer(f"http://{self.address}{path}", None)

    def post(
        self, path: str, body: Mapping[str, Any], *, key: str = "", seconds: int = _ANSWER_SECONDS
    ) -> tuple[int, str]:
        """POST a JSON body to its Service, with an API key if one is given; returns the status and the body."""
        return _answer(f"http://{self.address}{path}", json.dumps(body).encode(), key, seconds)

    def complete(self, prompt: str = PROMPT, **more: Any) -> str:  # noqa: ANN401 - any JSON
        """The text of one completion; a status other than 200 raises ClusterError."""
        body = {"model": self.name, "prompt": prompt, "max_tokens": 8, "temperature": 0, **more}
        status, text = self.post("/v1/completions", body)
        if status != 200:  # noqa: PLR2004 - HTTP
            raise ClusterError(f"{self.name} answers {status}: {text}")
        answer: str = json.loads(text)["choices"][0]["text"]
        return answer

    @contextmanager
    def serving(self, manifest: Mapping[str, Any]) -> Iterator["Served"]:
        """Apply a resource of this name; it serves behind two routers during the block, and is left after it."""
        self.kubectl("apply", "--filename=-", input=yaml.safe_dump(manifest))
        try:
            stack.wait_ready(self.cluster, self.name)
            self.await_routers(2)
            yield self
        finally:
            self.leave()

    def router_images(self) -> set[str]:
        """The images of all containers of its routers."""
        selector = f"--selector=inference-operator.dev/name={self.name},app.kubernetes.io/component=router"
        pods = json.loads(self.kubectl("get", "pods", selector, "--output=json"))["items"]
        return {container["image"] for pod in pods for container in pod["spec"]["containers"]}

    def pods(self, component: str) -> dict[str, str]:
        """Addresses of a component's pods, by name."""
        return stack.pods(self.cluster, self.name, component, self.namespace)

    def scale(self, replicas: int) -> None:
        """Run `kubectl scale`, and wait until exactly this number of engines is ready."""
        self.kubectl("scale", f"infd/{self.name}", f"--replicas={replicas}")
        stack.wait_engines(self.cluster, self.name, replicas, self.namespace)

    def patch(self, spec: Mapping[str, Any]) -> None:
        """Change fields of the specification; None removes one."""
        self.kubectl("patch", "infd", self.name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    def await_routers(self, replicas: int) -> None:
        """Wait until exactly this number of routers is ready, and none is terminating."""
        self.kubectl("rollout", "status", f"deployment/{self.name}-router", "--timeout=120s")
        eventually(
            lambda: len(self.pods("router")) == replicas, seconds=180, what=f"{replicas} routers, and none terminating"
        )

    def await_gone(self) -> None:
        """Wait until all its objects are gone."""
        kinds = "deployments,replicasets,pods,services,endpointslices,configmaps,poddisruptionbudgets,jobs"
        selector = f"--selector=inference-operator.dev/name={self.name}"
        eventually(
            lambda: not self.kubectl("get", kinds, selector, "--output=name"),
            seconds=_GONE_SECONDS,
            what=lambda: f"still there: {self.kubectl('get', kinds, selector, '--output=name')}",
        )

    def leave(self) -> None:
        """Delete it while the next test begins: engines and routers stop for as long as clients may still use them.

        `await_left` and `await_all_left` wait until all its objects are gone.
        """
        self.kubectl("delete", f"infd/{self.name}", "--wait=false", "--ignore-not-found")
        _leaving.append(self)

    def await_left(self) -> None:
        """Wait until it is gone if it was left, for another one of its name."""
        if self in _leaving:
            self.await_gone()
            _leaving.remove(self)

    def answered(self) -> dict[str, float]:
        """Number of completions that each engine has answered since its start, by pod."""
        return self.counted("vllm:request_success_total")

    def counted(self, metric: str) -> dict[str, float]:
        """A counter of each engine since its start, by pod."""
        return {pod: _metric(address, metric) for pod, address in self.pods("engine").items()}

    def await_all_in_use(self) -> None:
        """Wait, under load, until every router sends requests to every engine."""
        before = self.answered()
        eventually(lambda: self._all_answered_more(before), seconds=_DISCOVERY_SECONDS, what="all engines answer")
        time.sleep(_SAME_SECONDS)

    def _all_answered_more(self, before: Mapping[str, float]) -> bool:
        after = self.answered()
        return all(after[pod] > answered for pod, answered in before.items())

    def running(self, pod: str) -> float:
        """Number of requests that run on an engine."""
        return _metric(self.pods("engine")[pod], "vllm:num_requests_running")


def await_all_left() -> None:
    """Wait until all resources that were left are gone."""
    for served in tuple(_leaving):
        served.await_left()


def metric(address: str, series: str, *, port: int = 8000, path: str = "/metrics") -> float:
    """The sum of all samples of a pod that begin with these characters, such as a name and its first labels."""
    lines = metrics_page(address, port=port, path=path).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(series))


def metrics_page(address: str, *, port: int = 8000, path: str = "/metrics") -> str:
    return _answer(f"http://{stack.authority(address, port)}{path}", None)[1]


def _metric(address: str, name: str) -> float:
    return metric(address, f"{name}{{")


def _answer(url: str, body: bytes | None, key: str = "", seconds: int = _ANSWER_SECONDS) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - a cluster's own
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310 - as above
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
