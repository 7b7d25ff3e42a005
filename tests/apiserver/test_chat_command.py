"""`infd chat`, `top` and `bench` against a real API server: the rights of a plain user, and what it says without them.

The nodes are simulated, so that no port can be forwarded to the end. `e2e/test_infd.py` does that.
"""

import json
from pathlib import Path

from tests.testing.infd_command import infd
from tests.testing.operated_cluster import token_kubeconfig
from tests.testing.workspace import Workspace, served


def test_a_plain_user_is_told_which_right_is_missing(workspace: Workspace, tmp_path: Path) -> None:
    served(workspace)
    workspace.kubectl("create", "serviceaccount", "asker")
    account = f"--serviceaccount={workspace.namespace}:asker"
    workspace.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,inferencedeployments,events")
    workspace.kubectl("create", "rolebinding", "reader", "--role=reader", account)
    config = token_kubeconfig(workspace.cluster, workspace.namespace, "asker", tmp_path / "kubeconfig")
    as_asker = (f"--kubeconfig={config}", f"--namespace={workspace.namespace}")

    status, said, complaints = infd(workspace.cluster, "chat", "qwen", "Hi", *as_asker)
    right = f"the rights to get and create `pods/portforward` in the namespace `{workspace.namespace}`"
    assert (status, said, right in complaints) == (4, "", True), complaints
    status, _, complaints = infd(workspace.cluster, "bench", "qwen", "--yes", *as_asker)
    assert (status, right in complaints) == (4, True), complaints
    status, _, complaints = infd(workspace.cluster, "chat", "qwen", "Hi", "--key-from=mine", *as_asker)
    assert (status, "the right to get the Secret `mine`" in complaints) == (4, True), complaints
    status, said, _ = infd(workspace.cluster, "list", "qwen", "--traffic", "--output=json", *as_asker)
    assert (status, json.loads(said)["items"][0]["name"]) == (0, "qwen")

    workspace.kubectl("create", "role", "forwarder", "--verb=get,create", "--resource=pods/portforward")
    workspace.kubectl("create", "rolebinding", "forwarder", "--role=forwarder", account)
    status, _, complaints = infd(workspace.cluster, "chat", "qwen", "Hi", *as_asker)
    assert (status, "No answer: the connection to qwen breaks" in complaints) == (1, True), complaints
