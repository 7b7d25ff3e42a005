import re

import pytest
from prometheus_client import generate_latest

from inference_operator.controller.cache import Cache
from inference_operator.telemetry.description import Description
from inference_operator.telemetry.metrics import DESCRIPTIONS, RESOURCES
from tests.testing.builders import SETTINGS, inference_deployment

UNITS = ("_seconds", "_total", "_info")
COUNTS = {
    *(
        "infd_leader",
        "infd_resources",
        "infd_rollout_resources",
        "infd_workqueue_depth",
        "infd_namespaces_unreadable",
        "infd_namespaces_left_to_others",
        "infd_optional_kind_used",
        "infd_router_pods",
    ),
    *("infd_condition", "infd_node_gpus", "infd_replicas", "infd_max_replicas", "infd_gpus", "infd_startup_step"),
    *("infd_scaling_demand_requests", "infd_scaling_target_concurrency", "infd_scaling_bound"),
}
CURRENCY = "infd_cost_per_hour"


@pytest.mark.parametrize("one", DESCRIPTIONS, ids=lambda one: one.name)
def test_metric_names_follow_the_prometheus_conventions(one: Description) -> None:
    assert re.fullmatch(r"infd_[a-z_]+", one.name)
    assert one.name.endswith(UNITS) or one.name in {*COUNTS, CURRENCY}
    assert one.name.endswith("_total") == (one.type == "counter")
    assert "|" not in one.text


def test_every_metric_is_exported_as_described() -> None:
    text = generate_latest().decode()
    for one in DESCRIPTIONS:
        assert f"# TYPE {one.name} {one.type}\n" in text
    told = set(re.findall(r"# TYPE (infd_\w+?)(?:_created)? ", text))
    assert (
        told - {one.name for one in DESCRIPTIONS}
        == {one.name.removesuffix("_total") for one in DESCRIPTIONS if one.type == "counter"}
        - {one.name for one in DESCRIPTIONS}
        & told
    )


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({}, "progressing"),
        ({"Ready": "False", "Reconciling": "True"}, "progressing"),
        ({"Ready": "True", "Stalled": "False"}, "ready"),
        ({"Ready": "True", "Stalled": "True"}, "stalled"),
    ],
)
def test_resources_are_counted_by_state_at_each_scrape(conditions: dict[str, str], state: str) -> None:
    cache = Cache(SETTINGS)
    raw = inference_deployment()
    listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
    cache.put({**raw, "metadata": {**raw["metadata"], "resourceVersion": "1"}, "status": {"conditions": listed}})
    RESOURCES.counts = cache.states
    (family,) = RESOURCES.collect()
    counts = {sample.labels["state"]: sample.value for sample in family.samples}
    assert counts == {"ready": 0, "progressing": 0, "stalled": 0, state: 1}
