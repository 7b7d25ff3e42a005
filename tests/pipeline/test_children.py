"""Properties of every child object."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.resource import RESERVED_NAME
from inference_operator.api.spec import MAX_NAME_LENGTH
from inference_operator.jobs.result import Cause
from inference_operator.manifest import CHILD_KINDS, NETWORK_POLICY, SERVICE, Kind, Manifest, Owner, Ref
from inference_operator.objects.child import DESIRED_HASH_ANNOTATION, content_hash
from inference_operator.objects.names import MANAGED_SELECTOR, selector_text
from inference_operator.pipeline.decide import outcome
from inference_operator.quantity import canonical
from inference_operator.status.report import report
from inference_operator.status.write_results import Applied
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION
from tests.testing.builders import (
    BUDGET_OF_ENGINES,
    BUDGET_OF_ROUTERS,
    CONFIG,
    ENGINES,
    KEY,
    ROUTERS,
    SERVICE_OF_ENGINES,
    SERVICE_OF_ROUTERS,
    UID,
    inference_deployment,
    inputs,
    planned,
)
from tests.testing.everything import POD_TEMPLATE, SCHEDULING
from tests.testing.for_each import for_each
from tests.testing.inspected import failing
from tests.testing.schemas import validate

VARIANTS: dict[str, Manifest] = {
    "hub": inference_deployment(),
    "claim": inference_deployment(source="pvc://models/qwen", parallelism={"tensor": 1}),
    "image": inference_deployment(source="oci://ghcr.io/org/qwen:1", parallelism={"tensor": 1}),
    "tensor 8, two engines": inference_deployment(parallelism={"tensor": 8}, replicas=2),
    "CPU, one router": inference_deployment(hardware={"device": "CPU"}, router={"replicas": 1}),
    "scheduled": inference_deployment(
        parallelism={"tensor": 1},
        scheduling={**SCHEDULING, "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
    ),
    "with additions": inference_deployment(podTemplate=POD_TEMPLATE),
    "exposed": inference_deployment(
        router={
            "service": {
                "type": "LoadBalancer",
                "annotations": {"example.com/internal": "true"},
                "labels": {"team": "search"},
                "loadBalancerClass": "example.com/lb",
            },
            "ingress": {"host": "llm.example.com", "className": "nginx", "tlsSecretRef": {"name": "llm-tls"}},
            "tls": {"secretRef": {"name": "router-tls"}},
        }
    ),
    "limited users": inference_deployment(
        router={"keys": {"secretRef": {"name": "users"}, "requestsPerMinute": 60, "maxConcurrent": 8}}
    ),
    "scaled to zero": inference_deployment(replicas=0),
    "everything": inference_deployment(
        engine={
            "image": "example.com/vllm:1",
            "args": ["--seed=4096"],
            "env": [
                {"name": "EMPTY", "value": ""},
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            ],
            "resources": {"requests": {"cpu": 2, "memory": "0.5Gi"}, "limits": {"memory": "1024Mi"}},
        },
        replicas=40,
        rollout={"progressDeadline": "2h"},
        startupTimeout="1h30m",
        drainTimeout="20m",
    ),
}
CHILDREN = {
    f"{name}: {ref}": manifest for name, raw in VARIANTS.items() for ref, manifest in planned(raw).desired.items()
}
EVERY_CHILD = for_each(CHILDREN)
EVERY_VARIANT = pytest.mark.parametrize("raw", VARIANTS.values(), ids=VARIANTS)
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield path, value
    for name, part in parts:
        yield from leaves(part, f"{path}.{name}")


def pod_of(child: Manifest) -> Manifest:
    pod: Manifest = child["spec"]["template"]["spec"]
    return pod


@EVERY_CHILD
def test_a_child_is_valid_for_kubernetes(name: str) -> None:
    validate(CHILDREN[name])


@EVERY_CHILD
def test_a_child_has_owner_reference_labels_and_desired_hash(name: str) -> None:
    child = CHILDREN[name]
    meta = child["metadata"]
    assert meta["namespace"] == "default"
    assert Owner(KEY, UID).owns(child)
    assert meta["ownerReferences"][0]["blockOwnerDeletion"] is False
    assert MANAGED_SELECTOR in [f"{name}={value}" for name, value in meta["labels"].items()]
    assert meta["labels"]["inference-operator.dev/name"] == "qwen"
    assert meta["labels"]["app.kubernetes.io/component"] in ("engine", "router", "inspection")
    assert meta["annotations"][DESIRED_HASH_ANNOTATION]
    assert Kind(child["apiVersion"], child["kind"]) in (*CHILD_KINDS, NETWORK_POLICY)


@EVERY_CHILD
def test_a_child_has_the_form_that_the_api_server_stores(name: str) -> None:
    """Otherwise the reconciler would write it again each time: see `controller/drift.py`."""
    child = CHILDREN[name]
    for path, value in leaves(child):
        if not path.endswith(".emptyDir"):
            assert value not in ({}, [], "", None), path
        if re.search(r"\.resources\.(requests|limits)\.[^.]+$|\.sizeLimit$", path):
            assert isinstance(value, str)
            assert canonical(value) == value, path


@EVERY_CHILD
def test_selectors_select_the_pods_of_their_component(name: str) -> None:
    child = CHILDREN[name]
    spec, component = child.get("spec", {}), child["metadata"]["labels"]["app.kubernetes.io/component"]
    if "selector" in spec:
        selected = spec["selector"].get("matchLabels", spec["selector"])
        target = "router" if child["kind"] == "Service" and component == "router" else component
        pods = next(
            other["spec"]["template"]["metadata"]["labels"]
            for other in CHILDREN.values()
            if other["kind"] == "Deployment" and other["metadata"]["name"] == f"qwen-{target}"
        )
        assert selected.items() <= pods.items()
        of_engines = child["kind"] == "Service" and component == "engine"
        assert len(selected) == (3 if of_engines else 2), "the Service of the engines selects the traffic label too"


@EVERY_VARIANT
def test_children_are_built_deterministically(raw: Manifest) -> None:
    first = planned(raw)
    kept = copy.deepcopy(first.desired)
    assert planned(raw) == first
    assert first.desired == kept


@EVERY_VARIANT
def test_pods_are_restricted(raw: Manifest) -> None:
    for ref in (ENGINES, ROUTERS):
        pod = pod_of(planned(raw).desired[ref])
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()


@EVERY_VARIANT
def test_every_volume_of_a_pod_is_mounted_and_every_mount_has_a_volume(raw: Manifest) -> None:
    for ref in (ENGINES, ROUTERS):
        pod = pod_of(planned(raw).desired[ref])
        volumes = [volume["name"] for volume in pod["volumes"]]
        mounts = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        assert set(volumes) == mounts
        assert len(set(volumes)) == len(volumes)


@EVERY_VARIANT
def test_grace_periods_cover_the_shutdown_of_engines_and_routers(raw: Manifest) -> None:
    desired = planned(raw).desired
    engine, router = pod_of(desired[ENGINES]), pod_of(desired[ROUTERS])
    (container,) = engine["containers"]
    staleness, drain = map(int, container["lifecycle"]["preStop"]["exec"]["command"][6:8])
    (shutdown,) = [int(a.split("=")[1]) for a in container["args"] if a.startswith("--shutdown-timeout=")]
    assert engine["terminationGracePeriodSeconds"] == staleness + drain + shutdown + 10
    assert staleness == 35
    (hard_stop,) = re.findall(r"hard-stop-after (\d+)s", desired[CONFIG]["data"]["haproxy.cfg"])
    for haproxy in router["containers"]:
        removal, held = map(int, haproxy["lifecycle"]["preStop"]["exec"]["command"][4:6])
        assert (removal, held) == (10, drain)
        assert router["terminationGracePeriodSeconds"] == removal + drain + 10
    assert drain == int(hard_stop) == (1200 if "drainTimeout" in raw["spec"] else 300)


@EVERY_VARIANT
def test_containers_with_failed_probes_get_a_short_grace_period(raw: Manifest) -> None:
    for ref, more in ((ENGINES, {"startupProbe": 10}), (ROUTERS, {})):
        for container in pod_of(planned(raw).desired[ref])["containers"]:
            probes = {key: part for key, part in container.items() if key.endswith("Probe")}
            graces = {key: probe.get("terminationGracePeriodSeconds") for key, probe in probes.items()}
            assert graces == {**more, "livenessProbe": 10, "readinessProbe": None}


@EVERY_VARIANT
def test_ports_of_containers_probes_services_and_router_agree(raw: Manifest) -> None:
    desired = planned(raw).desired
    for deployment in (ENGINES, ROUTERS):
        for container in pod_of(desired[deployment])["containers"]:
            named = {port["name"] for port in container["ports"]}
            assert {probe["httpGet"]["port"] for key, probe in container.items() if key.endswith("Probe")} <= named
    (engine,) = pod_of(desired[ENGINES])["containers"]
    (port,) = desired[SERVICE_OF_ENGINES]["spec"]["ports"]
    assert port["targetPort"] in {port["name"] for port in engine["ports"]}
    assert f"--port={engine['ports'][0]['containerPort']}" in engine["args"]
    assert "qwen-engines.default.svc.cluster.local:8000" in desired[CONFIG]["data"]["haproxy.cfg"]
    assert desired[SERVICE_OF_ENGINES]["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize(
    ("replicas", "routers", "budgets"),
    [
        (0, 1, {BUDGET_OF_ROUTERS}),
        (1, 1, {BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS}),
        (1, 2, {BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS}),
        (2, 1, {BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS}),
        (3, 3, {BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS}),
    ],
)
def test_disruption_budgets_exist_for_engines_and_routers(replicas: int, routers: int, budgets: set[object]) -> None:
    desired = planned(inference_deployment(replicas=replicas, router={"replicas": routers})).desired
    services = {SERVICE_OF_ENGINES, SERVICE_OF_ROUTERS, Ref(SERVICE, "default", "qwen-routers")}
    assert set(desired) - {CONFIG, *services, ENGINES, ROUTERS} == budgets
    assert desired[ENGINES]["spec"]["replicas"] == replicas
    assert desired[ROUTERS]["spec"]["replicas"] == routers


@given(size=st.integers(1, 64))
def test_an_engine_has_as_many_gpus_as_its_tensor_parallel_size(size: int) -> None:
    unchecked = outcome(failing(Cause.UNREACHABLE, parallelism={"tensor": size}))
    (container,) = pod_of(dict(unchecked.desired)[ENGINES])["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == str(size)
    assert container["resources"]["requests"]["nvidia.com/gpu"] == str(size)
    assert f"--tensor-parallel-size={size}" in container["args"]


def test_a_cpu_engine_has_no_gpu_toleration_and_no_limits() -> None:
    pod = pod_of(planned(VARIANTS["CPU, one router"]).desired[ENGINES])
    assert "tolerations" not in pod
    assert "limits" not in pod["containers"][0]["resources"]


def test_the_template_hash_changes_only_with_the_pod_template() -> None:
    def hashes(raw: Manifest) -> list[str]:
        templates = [planned(raw).desired[ref]["spec"]["template"] for ref in (ENGINES, ROUTERS)]
        return [template["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION] for template in templates]

    engine, router = hashes(inference_deployment())
    assert hashes(inference_deployment(replicas=2, router={"replicas": 3})) == [engine, router]
    other, same = hashes(inference_deployment(engine={"args": ["--seed=4096"]}))
    assert (other != engine, same) == (True, router)
    assert hashes(inference_deployment(replicas=200))[1] != router, "the configuration has more server slots"


NAMES = st.from_regex(DNS_LABEL, fullmatch=True).filter(
    lambda name: len(name) <= MAX_NAME_LENGTH and name != RESERVED_NAME
)


@given(name=NAMES | st.just("a" * MAX_NAME_LENGTH))
def test_every_valid_resource_name_gives_valid_child_names(name: str) -> None:
    raw = inference_deployment(name=name, replicas=2)
    desired = planned(raw).desired
    assert len(desired) == 8
    for ref, manifest in desired.items():
        assert DNS_LABEL.fullmatch(ref.name), ref
        assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values())
    services = [ref.name for ref, manifest in desired.items() if manifest["kind"] == "Service"]
    assert len(set(services)) == len(services)


def test_labels_and_annotations_of_the_resource_are_not_copied_to_children() -> None:
    raw = inference_deployment()
    raw["metadata"]["labels"] = {"argocd.argoproj.io/instance": "app"}
    raw["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert planned(raw).desired == planned(inference_deployment()).desired


def test_the_scale_selector_in_the_status_selects_the_engine_pods() -> None:
    seen = inputs(inference_deployment())
    desired = planned(inference_deployment()).desired
    results = [Applied(manifest) for manifest in desired.values()]
    status = report(seen, planned(inference_deployment()), results).status
    labels = desired[ENGINES]["spec"]["selector"]["matchLabels"]
    assert status.selector == ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    assert status.selector == selector_text("qwen", "engine")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON)
def test_content_hashes_are_equal_only_for_equal_data(one: object, other: object) -> None:
    assert content_hash(copy.deepcopy(one)) == content_hash(one)
    assert (content_hash(one) == content_hash(other)) == (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )
