"""Builders of objects as users, controllers and kubelets write them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.engines import registry
from inference_operator.jobs.inspection import model_record
from inference_operator.manifest import (
    API_VERSION,
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    KIND,
    SERVICE,
    Key,
    Manifest,
    Ref,
)
from inference_operator.models.checkpoint import INDEX, Weights
from inference_operator.models.entry import Entry
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.objects.names import ENGINE, ROUTER, labels
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Planned
from inference_operator.settings import Settings
from inference_operator.views.lookups import ClaimLookup, ClaimView, Lookup, LookupResult
from inference_operator.views.node import NodeView, node_view
from inference_operator.views.pod import TRAFFIC_LABEL, PodView
from inference_operator.views.raw import mapping
from inference_operator.views.samples import EngineActivity, EngineSample, ProbeState
from tests.testing.collected import entry
from tests.testing.nodes import node

H100 = node("h100-a", gpus=8)
"""One node with eight of them."""
NODES = (node_view(H100),)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = Key("default", "qwen")
UID = "7a1c0f5e-0000-4000-8000-000000000001"
SETTINGS = Settings()

ENGINES = Ref(DEPLOYMENT, "default", "qwen-engine")
ROUTERS = Ref(DEPLOYMENT, "default", "qwen-router")
CONFIG = Ref(CONFIG_MAP, "default", "qwen-router")
SERVICE_OF_ENGINES = Ref(SERVICE, "default", "qwen-engines")
SERVICE_OF_ROUTERS = Ref(SERVICE, "default", "qwen")
BUDGET_OF_ENGINES = Ref(DISRUPTION_BUDGET, "default", "qwen-engine")
BUDGET_OF_ROUTERS = Ref(DISRUPTION_BUDGET, "default", "qwen-router")


def inference_deployment(*, name: str = "qwen", source: str = "hf://Qwen/Qwen3-8B", **spec: object) -> Manifest:
    """An InferenceDeployment as the API server shows it; `spec` has the API's own names."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": "default", "uid": UID, "generation": 1},
        "spec": {"model": {"source": source}, "replicas": 1, **spec},
    }


def inputs(
    raw: Manifest,
    *,
    children: Iterable[Manifest] = (),
    pods: Iterable[PodView] = (),
    settings: Settings = SETTINGS,
    now: datetime = NOW,
    nodes: Sequence[NodeView] | None = NODES,
) -> Inputs:
    return Inputs(
        resource=resource(raw),
        children={Ref.of(child): child for child in children},
        pods=tuple(pods),
        settings=settings,
        now=now,
        nodes=nodes,
        lookups=known_claims(raw),
    )


def known_claims(raw: Manifest, *modes: str) -> Mapping[Lookup, LookupResult]:
    """That the claim of the users, if the spec names one, can be mounted on all nodes, or has these access modes."""
    claim = mapping(raw["spec"], "cache").get("claimName")
    look = ClaimLookup(str(raw["metadata"]["namespace"]), str(claim))
    return {look: ClaimView(modes or ("ReadWriteMany",))} if claim else {}


def planned(raw: Manifest, *, children: Iterable[Manifest] = (), settings: Settings = SETTINGS) -> Planned:
    """What is planned once the model is known."""
    result = outcome(inputs(raw, children=children, settings=settings))
    if isinstance(result, NeedsInspection):
        result = outcome(inputs(raw, children=[*children, model_known(raw)], settings=settings))
    assert isinstance(result, Planned), result
    return result


def model_known(
    raw: Manifest,
    name: str = "",
    *,
    download_bytes: int = 0,
    architecture: str = "",
    origin: str = "",
    commit: str = "",
) -> Manifest:
    """The ConfigMap in which an inspection has left that the model is this one; by default its own, else Qwen3-8B.

    With an architecture its config names that one instead. Weights are quantized as the specification says, if no
    engine does it. `origin` is where they are: by default in safetensors, or in the GGUF file that the source names.
    """
    asked = resource(raw)
    assert isinstance(asked.spec, Spec)
    known = entry(name or asked.spec.model.source.removeprefix("hf://")) or entry("Qwen/Qwen3-8B")
    assert known
    revision = registry.ENGINES[registry.VLLM].access(asked.spec.engine, asked.spec.model).revision
    record = model_record(asked.spec.model, revision, owner=asked.owner)
    facts = model_facts(known.config, known.weights)
    assert isinstance(facts, ModelFacts)
    source = asked.spec.model.source
    in_gguf = source.endswith(".gguf")
    weights = Weights(facts.weight_bytes, origin or (PurePosixPath(source).name if in_gguf else INDEX))
    method = asked.spec.engine.quantization
    stored = {"quantization_config": {"quant_method": method, "bits": 8}} if method in ("awq", "gptq") else {}
    named = architecture or ("qwen3" if in_gguf else "")
    config = {**known.config, **({"architectures": [named]} if named else {}), **stored}
    found = Entry(source, f"{source}:config.json", config, weights, commit, download_bytes=download_bytes)
    return record.manifest(found)


def deployment_status(
    replicas: int, *, ready: int | None = None, updated: int | None = None, seen: int = 1
) -> Manifest:
    """What a Deployment's controller writes once it has looked at generation `seen`."""
    return {
        "observedGeneration": seen,
        "replicas": replicas,
        "updatedReplicas": replicas if updated is None else updated,
        "readyReplicas": replicas if ready is None else ready,
    }


def pod(
    *,
    name: str = "qwen-engine-7c9f-abcde",
    component: str = ENGINE,
    status: object = None,
    version: int = 1,
    age: timedelta = timedelta(0),
    added_labels: Mapping[str, str] | None = None,
) -> Manifest:
    """A pod as its ReplicaSet makes it; an engine has the traffic label from its template."""
    added = {TRAFFIC_LABEL: "true"} if added_labels is None and component != ROUTER else added_labels or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"pod-{name}",
            "resourceVersion": str(version),
            "labels": {**added, **labels("qwen", component)},
            "creationTimestamp": (NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "status": status if status is not None else {},
    }


def waiting(reason: str, message: str, *, container: str = ENGINE, last: Manifest | None = None) -> Manifest:
    """A pod's status whose container waits."""
    return {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [
            {
                "name": container,
                "ready": False,
                "state": {"waiting": {"reason": reason, "message": message}},
                "lastState": last or {},
            }
        ],
    }


def unschedulable(message: str) -> Manifest:
    """A pod's status that the scheduler could place on no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def ready_pod() -> Manifest:
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


STALLED_ENGINE = EngineActivity(
    EngineSample("qwen", running=3, waiting=0, progress=(7.0,)),
    sessions=3,
    at=400.0,
    no_progress_since=100.0,
    probe=ProbeState.NO_RESPONSE,
    probe_sent_at=250.0,
)
"""An engine without progress for 300 s, which has not answered a probe request for 150 s."""
