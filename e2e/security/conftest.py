"""The engines of these tests, which start at the same time."""

from collections.abc import Iterator

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.test_keys import created

GUARDED, EXPANDS = "guarded", "expands"
SECRET, CANARY = "canary", "4711-correct-horse"
EXPANSION = "$(HF_TOKEN)"
TOKEN = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "password"}}}
OTHER = {"name": "OTHER", "value": f"-{EXPANSION}-"}


@pytest.fixture(scope="package")
def key(cluster: LocalCluster) -> Iterator[str]:
    """A key of a user. Both engines begin to start with it, and their tests wait for them."""
    secret, key = created("alice")
    cluster.kubectl("apply", "--filename=-", input=secret)
    cluster.kubectl("create", "secret", "generic", SECRET, f"--from-literal=password={CANARY}")
    guarded, expands = Served(cluster, GUARDED), Served(cluster, EXPANDS)
    apply(guarded, {"keys": {"secretRef": {"name": "users"}}})
    apply_expanding(expands, f"--response-role={EXPANSION}")
    yield key
    for served in (guarded, expands):
        served.leave()
    cluster.kubectl("delete", "secret", "users", SECRET)


def apply(served: Served, router: dict[str, object], args: tuple[str, ...] = (), env: tuple[object, ...] = ()) -> None:
    """Apply the sample behind one router, with more fields of it, and more arguments and variables of the engine."""
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = served.name
    resource["spec"]["engine"]["args"] += args
    resource["spec"]["engine"]["env"] += env
    resource["spec"]["router"] = {"replicas": 1, **router}
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))


def apply_expanding(served: Served, *args: str) -> None:
    """Apply the engine that has the Secret in a variable, with these arguments."""
    apply(served, {}, args, (TOKEN, OTHER))
