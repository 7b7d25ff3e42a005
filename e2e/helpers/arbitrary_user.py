"""A platform that chooses the users of pods: what OpenShift's SCC restricted-v2 does, as admission policies.

OpenShift gives a pod without a user the first of its namespace's range, and refuses a user outside the range
(openshift/apiserver-library-go, pkg/securitycontextconstraints/user/mustrunasrange.go). The group stays unset, so the
container runtime uses the group 0 for a user that the image does not know.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.deploy import stack
from e2e.helpers.container_processes import container_processes
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

USER = 1000650000
"""First user of the range of a project in OpenShift's documentation."""
POLICIES = Path(__file__).with_name("arbitrary_user.yaml")
FORCE_SECONDS = 60


@contextmanager
def users_from_platform(cluster: LocalCluster) -> Iterator[None]:
    """Choose the users of the operator's pods and of those of the resource `arbitrary`, for the block."""
    cluster.kubectl("apply", "--filename", str(POLICIES))
    try:
        eventually(lambda: _user_of_a_new_pod(cluster) == USER, seconds=FORCE_SECONDS, what="policies in force")
        stack.install_operator(cluster, {"settings.podUsers": "FromPlatform"})
        yield
    finally:
        cluster.kubectl("delete", "--filename", str(POLICIES))
        stack.install_operator(cluster)


def identities(cluster: LocalCluster, pod: str, namespace: str = "default") -> set[tuple[int, int]]:
    """User and group of every process in a pod's containers, from the kernel."""
    found = (process.joinpath("status").read_text() for process in container_processes(cluster, pod, namespace))
    return {(_effective(status, "Uid"), _effective(status, "Gid")) for status in found}


def _effective(status: str, name: str) -> int:
    (line,) = (line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[2])


def _user_of_a_new_pod(cluster: LocalCluster) -> int | None:
    """The user that a pod without one gets; None while a policy is not in force, in whatever order they come."""
    command = ("--namespace", stack.SYSTEM, "run", "probe", "--image=none", "--dry-run=server", "--output=json")
    try:
        pod = json.loads(cluster.kubectl(*command))
    except ClusterError:  # the policy that requires a user is in force before the one that gives it
        return None
    user: int | None = pod["spec"]["securityContext"].get("runAsUser")
    return user
