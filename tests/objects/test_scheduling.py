"""Scheduling fields of the engine Deployment."""

from inference_operator.manifest import Manifest
from inference_operator.objects.scheduling import on_architecture
from tests.testing.builders import CONFIG, ENGINES, ROUTERS, inference_deployment, planned
from tests.testing.everything import SCHEDULING

GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
PLAIN = planned(inference_deployment(parallelism={"tensor": 1})).desired


def pod(**scheduling: object) -> Manifest:
    raw = inference_deployment(scheduling=scheduling, parallelism={"tensor": 1})
    found: Manifest = planned(raw).desired[ENGINES]["spec"]["template"]["spec"]
    return found


def test_kubernetes_scheduling_fields_are_copied_into_the_engine_pod() -> None:
    built = pod(**SCHEDULING)
    for name in ("nodeSelector", "affinity", "priorityClassName", "runtimeClassName", "schedulerName"):
        assert built[name] == SCHEDULING[name]


def test_the_gpu_toleration_is_added_once_beside_the_users_tolerations() -> None:
    spot = {"key": "spot", "operator": "Exists"}
    assert pod()["tolerations"] == [GPU]
    assert pod(tolerations=[spot])["tolerations"] == [GPU, spot]
    assert pod(tolerations=[spot, GPU])["tolerations"] == [spot, GPU]
    on_cpu = planned(inference_deployment(hardware={"device": "CPU"}, scheduling={"tolerations": [spot]}))
    assert on_cpu.desired[ENGINES]["spec"]["template"]["spec"]["tolerations"] == [spot]


def test_a_topology_spread_constraint_counts_pods_of_one_template_hash() -> None:
    (constraint,) = pod(topologySpread=[{"topologyKey": "kubernetes.io/hostname"}])["topologySpreadConstraints"]
    assert constraint == {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": PLAIN[ENGINES]["spec"]["selector"]["matchLabels"]},
        "matchLabelKeys": ["pod-template-hash"],
    }


def test_a_queue_name_changes_only_metadata_of_the_engine_deployment() -> None:
    queued = planned(inference_deployment(scheduling={"queueName": "team-a"}, parallelism={"tensor": 1})).desired
    assert queued[ENGINES]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert queued[ENGINES]["spec"] == PLAIN[ENGINES]["spec"]
    assert queued[ENGINES]["metadata"]["annotations"] != PLAIN[ENGINES]["metadata"]["annotations"]


def test_scheduling_changes_only_the_engine_deployment() -> None:
    scheduled = planned(inference_deployment(scheduling=SCHEDULING, parallelism={"tensor": 1})).desired
    assert {ref for ref in PLAIN if scheduled[ref] != PLAIN[ref]} == {ENGINES}
    assert scheduled[CONFIG] == PLAIN[CONFIG]
    assert scheduled[ROUTERS] == PLAIN[ROUTERS]


def test_a_tag_that_ends_with_an_architecture_selects_its_nodes() -> None:
    amd64 = {"nodeSelector": {"kubernetes.io/arch": "amd64"}}
    assert on_architecture({}, "docker.io/vllm/vllm-openai-cpu:v0.32.0-x86_64") == amd64
    assert on_architecture({}, "docker.io/vllm/vllm-openai:v0.32.0@sha256:0123") == {}
