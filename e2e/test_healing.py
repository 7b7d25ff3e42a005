"""A real vLLM whose KV cache is too small for its context starts again with a shorter one, and serves."""

import json

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION

CACHE_BYTES = 2**20
"""The tiny model needs 1,024 bytes for each token, so this holds half of its 2,048 tokens."""
MODEL_TOKENS, CACHE_TOKENS = 2048, 1024


@pytest.mark.full  # two starts of an engine; tests/apiserver/test_healing.py covers the decision
def test_an_engine_whose_kv_cache_is_too_small_serves_with_a_shorter_context(cluster: LocalCluster) -> None:
    served = Served(cluster, "heals")
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = served.name
    resource["spec"]["engine"]["args"] = ["--enforce-eager", f"--kv-cache-memory-bytes={CACHE_BYTES}"]
    resource["spec"]["router"] = {"replicas": 1}
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        stack.wait_ready(cluster, served.name)
        status = json.loads(served.kubectl("get", "infd", served.name, "--output=json"))["status"]
        deployment = json.loads(served.kubectl("get", "deployment", f"{served.name}-engine", "--output=json"))
        pinned = PLAN_ANNOTATION.read(deployment)
        assert pinned
        assert pinned.plan.learned
        assert pinned.plan.learned.context == MODEL_TOKENS
        assert pinned.plan.learned.longest
        assert status["plan"]["maxModelLen"] < pinned.plan.learned.longest <= CACHE_TOKENS
        assert pinned.plan.revision == 1
        assert "the context was reduced from 2,048 to" in stack.conditions(cluster, served.name)["Sized"]["message"]
        assert served.complete()
        assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    finally:
        served.kubectl("delete", f"infd/{served.name}", "--wait=true")
        served.await_gone()
