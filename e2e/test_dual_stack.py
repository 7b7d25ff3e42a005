"""A cluster with IPv4 and IPv6: engines and routers answer in both families."""

import json
import urllib.request
from functools import partial
from ipaddress import ip_address
from typing import Any

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.localkube.waiting import eventually

ENGINE_PORT, STATISTICS_PORT = 8000, 9100
BOTH = [4, 6]


def families(addresses: list[str]) -> list[int]:
    return sorted(ip_address(one).version for one in addresses)


def service(tiny: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tiny.kubectl("get", "service", tiny.name, "--output=json"))["spec"]
    return found


def addresses(tiny: Served, component: str) -> list[list[str]]:
    """The addresses of each pod of a component."""
    selector = f"inference-operator.dev/name={tiny.name},app.kubernetes.io/component={component}"
    listed = json.loads(tiny.kubectl("get", "pods", f"--selector={selector}", "--output=json"))["items"]
    return [[one["ip"] for one in pod["status"]["podIPs"]] for pod in listed]


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - a pod of this cluster
        code: int = answer.status
        return code


def test_engines_and_routers_answer_at_their_addresses_of_both_families(tiny: Served) -> None:
    for component, port, path in (("engine", ENGINE_PORT, "/health"), ("router", STATISTICS_PORT, "/metrics")):
        every = addresses(tiny, component)
        assert every
        for pod in every:
            assert families(pod) == BOTH
            assert {status(f"http://{stack.authority(one, port)}{path}") for one in pod} == {200}


def test_a_service_has_the_primary_family_until_its_owner_asks_for_both_and_keeps_them(tiny: Served) -> None:
    assert service(tiny)["ipFamilyPolicy"] == "SingleStack"
    assert families(service(tiny)["clusterIPs"]) == [4]
    asked = {"spec": {"ipFamilyPolicy": "PreferDualStack"}}
    tiny.kubectl("patch", "service", tiny.name, "--type=merge", f"--patch={json.dumps(asked)}")
    assert families(service(tiny)["clusterIPs"]) == BOTH
    for one in service(tiny)["clusterIPs"]:
        eventually(partial(_completes, tiny, one), seconds=60, what=f"a completion through {one}")
    # A change of the Service's labels makes the operator apply the Service again.
    tiny.kubectl("label", "service", tiny.name, "app.kubernetes.io/managed-by=somebody", "--overwrite")
    jsonpath = "--output=jsonpath={.metadata.labels.app\\.kubernetes\\.io/managed-by}"
    eventually(
        lambda: tiny.kubectl("get", "service", tiny.name, jsonpath) == "inference-operator",
        seconds=60,
        what="the operator restores its label",
    )
    assert families(service(tiny)["clusterIPs"]) == BOTH


def _completes(tiny: Served, address: str) -> bool:
    body = {"model": tiny.name, "prompt": "Tell me about otters", "max_tokens": 4, "temperature": 0}
    request = urllib.request.Request(
        f"http://{stack.authority(address, 80)}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
            return len(json.loads(answer.read())["choices"]) == 1
    except OSError:
        return False
