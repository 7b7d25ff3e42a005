"""A ModelGateway goes through the controller: its objects, its list of models, and how often it writes."""

from datetime import timedelta

import pytest

from inference_operator.controller.cache import Cache
from inference_operator.controller.reconciler import Reconciler
from inference_operator.kube.events import Events
from inference_operator.manifest import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    INFERENCE_DEPLOYMENT,
    MODEL_GATEWAY,
    POD,
    SECRET,
    SERVICE,
    Key,
    Manifest,
    Owner,
    Ref,
)
from inference_operator.objects.adapter_list import ADVERTISED, text_hash
from inference_operator.objects.gateway_key import GATEWAY_KEY_SECRET, GATEWAY_KEY_TYPE
from inference_operator.objects.names import GATEWAY, KIND_LABEL, labels
from inference_operator.views.pod import ADAPTERS_ANNOTATION
from tests.controller.world import World
from tests.testing.builders import H100, KEY, deployment_status, inference_deployment
from tests.testing.memory_cluster import SYSTEM_METADATA, Request

NAME = "models"
OURS = Key(KEY.namespace, NAME, MODEL_GATEWAY)
LIST = Ref(CONFIG_MAP, KEY.namespace, "models-models")
PODS = Ref(DEPLOYMENT, KEY.namespace, "models-gateway")
MODELS = 1_000
SOON = timedelta(seconds=3)
"""Of the clock of decisions: the rest of five seconds is the kubelet's, and that of routers, which read again."""
MOST_ROUNDS = 30


class Gateways(World):
    """The operator with a queue of all keys, which are due again when a decision says so."""

    def _begin(self) -> None:
        super()._begin()
        self.cache = Cache(self.settings)
        self.cache.nodes.put(H100)
        self.due: set[Key] = set()
        self.events = Events(self.cluster, "pod-1", lambda: self.now)
        self.reconciler = Reconciler(self.cluster, self.cache, lambda: self.now, self.events.record, self.due.add)

    def ask_for_gateway(self, **spec: object) -> None:
        meta = {"name": NAME, "namespace": KEY.namespace}
        kind = {"apiVersion": MODEL_GATEWAY.api_version, "kind": MODEL_GATEWAY.name}
        self.cluster.apply_as("kubectl", {**kind, "metadata": meta, "spec": spec})

    def model(self, name: str) -> None:
        """An InferenceDeployment with its Service, as an operator has left them."""
        manifest = inference_deployment(name=name)
        meta = {key: value for key, value in manifest["metadata"].items() if key not in SYSTEM_METADATA}
        self.cluster.apply_as("kubectl", {**manifest, "metadata": meta})

    def serving(self, name: str, address: str) -> None:
        """The Service of a model gets an address."""
        uid = self.live(Ref(INFERENCE_DEPLOYMENT, KEY.namespace, name))["metadata"]["uid"]
        owner = Owner(Key(KEY.namespace, name), uid)
        own: Manifest = {"name": name, "namespace": KEY.namespace, "labels": labels(name, "router")}
        own["ownerReferences"] = [owner.reference]
        service = {"apiVersion": "v1", "kind": "Service", "metadata": own, "spec": {"clusterIP": address}}
        self.cluster.apply_as("operator", service)

    async def rest(self, *, only: Key | None = None) -> list[Request]:
        """Reconcile until nothing is due, also later; returns the writes."""
        before = len(self.cluster.writes)
        for _ in range(MOST_ROUNDS):
            due = {key for key in self.deliver() | self.due if only in (None, key)}
            self.due.clear()
            later = False
            for key in sorted(due):
                requeue = await self.reconciler.handle(key)
                if key == OURS and requeue and requeue.seconds is not None and requeue.seconds <= 1:
                    self.due.add(key)
                    later = True
            if not due:
                return self.cluster.writes[before:]
            if later:
                self.now += timedelta(seconds=1)
        raise AssertionError("no rest")

    def listed(self) -> str:
        text: str = self.live(LIST)["data"][ADVERTISED]
        return text

    def status_of_gateway(self) -> Manifest:
        found: Manifest = self.live(OURS.ref)["status"]
        return found

    def add_pod(self, name: str) -> None:
        own = {**labels(NAME, GATEWAY), KIND_LABEL: MODEL_GATEWAY.name}
        meta = {"name": name, "namespace": KEY.namespace, "labels": own}
        self.cluster.apply_as("kubelet", {"apiVersion": "v1", "kind": POD.name, "metadata": meta, "spec": {}})


@pytest.fixture
def world() -> Gateways:
    return Gateways()


async def test_an_empty_specification_gives_pods_a_service_a_budget_and_a_key(world: Gateways) -> None:
    world.ask_for_gateway()
    writes = await world.rest()
    assert {request.ref for request in writes if request.verb == "apply"} == {
        LIST,
        Ref(SECRET, KEY.namespace, GATEWAY_KEY_SECRET),
        Ref(CONFIG_MAP, KEY.namespace, "models-gateway"),
        PODS,
        Ref(SERVICE, KEY.namespace, NAME),
        Ref(DISRUPTION_BUDGET, KEY.namespace, "models-gateway"),
    }
    secret = world.live(Ref(SECRET, KEY.namespace, GATEWAY_KEY_SECRET))
    assert secret["type"] == GATEWAY_KEY_TYPE
    assert secret["metadata"]["ownerReferences"][0]["kind"] == MODEL_GATEWAY.name
    assert world.live(Ref(SERVICE, KEY.namespace, NAME))["spec"]["selector"][KIND_LABEL.replace("kind", "name")] == NAME
    assert world.status_of_gateway()["reason"] == "Starting"
    status = deployment_status(2, seen=world.live(PODS)["metadata"]["generation"])
    world.cluster.set_status(PODS, status)
    assert await world.rest() == [Request("status", OURS.ref)]
    assert world.status_of_gateway()["reason"] == "Serving"
    assert world.status_of_gateway()["modelsReady"] == "0/0"


async def test_a_model_that_comes_goes_or_moves_changes_the_list_and_no_pod_template(world: Gateways) -> None:
    world.ask_for_gateway()
    world.add_pod("models-gateway-1")
    await world.rest()
    template = world.live(PODS)["spec"]["template"]
    world.ask()
    await world.rest()
    world.serving(KEY.name, "10.0.0.7")
    writes = await world.rest(only=OURS)
    assert [request for request in writes if request.verb != "status"] == [
        Request("apply", LIST),
        Request("apply", Ref(POD, KEY.namespace, "models-gateway-1")),
    ]
    assert world.listed() == f"Qwen/Qwen3-8B 10.0.0.7|80|{KEY.name}\n{KEY.name} 10.0.0.7|80|{KEY.name}\n"
    pod = world.live(Ref(POD, KEY.namespace, "models-gateway-1"))
    assert pod["metadata"]["annotations"][ADAPTERS_ANNOTATION] == text_hash(world.listed())
    world.cluster.remove(Ref(SERVICE, KEY.namespace, KEY.name))
    world.serving(KEY.name, "10.0.0.8")
    await world.rest(only=OURS)
    assert "10.0.0.7" not in world.listed()
    world.cluster.remove(Ref(MODEL_GATEWAY, KEY.namespace, NAME))
    assert world.live(Ref(SERVICE, KEY.namespace, KEY.name))
    assert world.live(PODS)["spec"]["template"] == template


async def test_a_gateway_does_not_lead_to_itself_for_a_model_of_its_name(world: Gateways) -> None:
    world.ask_for_gateway()
    await world.rest()
    world.model(NAME)
    own = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "namespace": KEY.namespace}}
    world.cluster.apply_as("kubernetes", {**own, "spec": {"clusterIP": "10.0.0.9"}})
    await world.rest(only=OURS)
    assert f"{NAME} -|Starting|{NAME}\n" in world.listed()
    assert "10.0.0.9" not in world.listed()


@pytest.mark.parametrize("mistake", [{"replicas": 0}, {"resources": {"limits": {"nvidia.com/gpu": "1"}}}])
async def test_models_come_and_go_also_after_a_mistake(world: Gateways, mistake: Manifest) -> None:
    world.model("m")
    world.serving("m", "10.0.0.1")
    aliases = [{"name": "m", "targets": [{"name": "m"}]}]
    world.ask_for_gateway(aliases=aliases)
    await world.rest(only=OURS)
    assert "m *1|10.0.0.1|80|m\n" in world.listed()
    world.ask_for_gateway(aliases=aliases, **mistake)
    world.model("n")
    world.serving("n", "10.0.0.2")
    before = world.live(PODS)
    await world.rest(only=OURS)
    assert "m *1|10.0.0.1|80|m\nn 10.0.0.2|80|n\n" in world.listed()
    assert world.live(PODS) == before
    assert world.status_of_gateway()["reason"] == "InvalidSpec"


async def test_without_keys_of_engines_pods_mount_no_secret(world: Gateways) -> None:
    world.settings = world.settings.model_copy(update={"engine_keys": False})
    await world.restart()
    world.ask_for_gateway()
    writes = await world.rest()
    assert not any(request.ref.kind == SECRET for request in writes)
    assert "secret" not in str(world.live(PODS)["spec"]["template"]["spec"]["volumes"]).lower()


async def test_a_thousand_models_are_a_few_writes(world: Gateways) -> None:
    world.ask_for_gateway()
    for number in range(2):
        world.add_pod(f"models-gateway-{number}")
    await world.rest()
    for number in range(MODELS):
        world.model(f"m{number}")
        world.serving(f"m{number}", f"10.0.{number // 250}.{number % 250 + 1}")
    began = world.now
    writes = [request for request in await world.rest(only=OURS) if request.verb != "status"]
    assert writes.count(Request("apply", LIST)) == 1
    assert len(writes) == 1 + 2
    assert world.now - began <= SOON
    assert world.listed().count("\n") == MODELS + 1, "their names, and that of the one repository"
    assert world.status_of_gateway()["models"] == MODELS
    assert ("NamesAccepted", "True") in {
        (one["type"], one["status"]) for one in world.status_of_gateway()["conditions"]
    }


async def test_changes_within_a_second_are_one_write(world: Gateways) -> None:
    world.ask_for_gateway()
    await world.rest()
    before = len(world.cluster.writes)
    for number in range(5):
        world.model(f"m{number}")
        world.serving(f"m{number}", f"10.0.0.{number + 1}")
        world.due |= world.deliver()
        await world.reconciler.handle(OURS)
    assert [request for request in world.cluster.writes[before:] if request.verb != "status"].count(
        Request("apply", LIST)
    ) <= 1
    world.due = {OURS}
    await world.rest(only=OURS)
    assert "m4 10.0.0.5|80|m4" in world.listed()


@pytest.mark.parametrize(
    ("spec", "reason", "text"),
    [
        ({"aliases": [{"name": "x", "targets": [{"name": "gone"}]}]}, "NameRefused", "no such InferenceDeployment"),
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "InvalidSpec", "spec.resources.limits[nvidia.com/gpu]"),
        ({"replicas": 0}, "InvalidSpec", "spec.replicas"),
    ],
)
async def test_what_is_wrong_is_in_the_status(world: Gateways, spec: Manifest, reason: str, text: str) -> None:
    world.ask_for_gateway(**spec)
    await world.rest()
    if reason == "NameRefused":
        world.cluster.set_status(PODS, deployment_status(2, seen=world.live(PODS)["metadata"]["generation"]))
        await world.rest()
    assert world.status_of_gateway()["reason"] == reason
    assert text in world.status_of_gateway()["message"]
