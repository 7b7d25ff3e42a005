"""NetworkPolicies on a real API server: accepted, and stored unchanged."""

import json

from inference_operator.controller.drift import first_drift
from inference_operator.manifest import NETWORK_POLICY
from inference_operator.settings import Settings
from tests.testing.builders import inference_deployment, planned
from tests.testing.workspace import Workspace

SETTINGS = Settings(network_policies=True, metrics_from=("kubernetes.io/metadata.name=monitoring",))


def test_network_policies_are_stored_unchanged_and_need_no_second_write(workspace: Workspace) -> None:
    desired = planned(inference_deployment(), settings=SETTINGS).desired
    for ref, manifest in desired.items():
        if ref.kind == NETWORK_POLICY:
            meta = {name: value for name, value in manifest["metadata"].items() if name != "ownerReferences"}
            policy = {**manifest, "metadata": {**meta, "namespace": workspace.namespace}}
            workspace.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(policy))
            assert not first_drift(workspace.get("networkpolicies", ref.name), policy)
