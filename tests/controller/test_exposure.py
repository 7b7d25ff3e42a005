"""Children that expose the router: what others write on them stays, and a removed field removes its object."""

from typing import Any

from inference_operator.controller.cluster import ClusterError
from inference_operator.manifest import INGRESS, Manifest, Ref
from inference_operator.status.report import Requeue
from tests.controller.world import RESOURCE, SERVICE_OF_PEERS, World
from tests.testing.builders import CONFIG, ROUTERS, SERVICE_OF_ROUTERS, deployment_status
from tests.testing.memory_cluster import Request

OF_CLOUD = "service.beta.kubernetes.io/aws-load-balancer-id"
INGRESS_OF_ROUTERS = Ref(INGRESS, "default", "qwen")


def with_router(**router: Any) -> Any:  # noqa: ANN401 - a change of a manifest
    def change(manifest: Manifest) -> None:
        manifest["spec"]["router"] = router

    return change


def as_a_cloud_writes(manifest: Manifest) -> None:
    manifest["metadata"].setdefault("annotations", {})[OF_CLOUD] = "lb-1"
    manifest["spec"]["clusterIP"] = "10.0.0.7"
    manifest["spec"]["healthCheckNodePort"] = 31001
    for port in manifest["spec"]["ports"]:
        port["nodePort"] = 31000


async def serving(world: World) -> None:
    await world.settle()
    world.pods_are_ready()
    await world.settle()


async def test_what_a_cloud_writes_on_the_service_is_no_drift_and_stays_through_an_edit() -> None:
    world = World()
    world.ask(router={"service": {"type": "LoadBalancer", "annotations": {"a": "b"}}})
    await serving(world)
    world.edit(SERVICE_OF_ROUTERS, as_a_cloud_writes)
    assert await world.settle() == []
    world.edit(RESOURCE, with_router(service={"type": "LoadBalancer", "annotations": {"c": "d"}}))
    await world.settle()
    live = world.live(SERVICE_OF_ROUTERS)
    annotations = live["metadata"]["annotations"]
    assert (annotations.get("a"), annotations["c"], annotations[OF_CLOUD]) == (None, "d", "lb-1")
    assert (live["spec"]["clusterIP"], live["spec"]["healthCheckNodePort"]) == ("10.0.0.7", 31001)


async def test_an_address_is_reported_without_any_other_write() -> None:
    world = World()
    world.ask(router={"service": {"type": "LoadBalancer"}})
    await serving(world)
    world.cluster.set_status(SERVICE_OF_ROUTERS, {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}})
    assert await world.settle() == [Request("status", RESOURCE)]
    assert world.status().external_urls == ("http://192.0.2.1/v1",)
    assert world.conditions()["Exposed"] == ("True", "Exposed")


async def test_an_ingress_is_deleted_with_its_field_and_the_condition_goes() -> None:
    world = World()
    world.ask(router={"ingress": {"host": "llm.example.com"}})
    await serving(world)
    assert world.cluster.peek(INGRESS_OF_ROUTERS)
    world.edit(RESOURCE, with_router())
    await world.settle()
    assert world.cluster.peek(INGRESS_OF_ROUTERS) is None
    assert "Exposed" not in world.conditions()


async def test_to_external_the_routers_are_deleted_once_the_service_selects_the_engines() -> None:
    world = World()
    world.ask()
    await serving(world)
    before = len(world.cluster.writes)
    world.edit(RESOURCE, with_router(strategy="External"))
    assert await world.reconcile() == Requeue(1.0)
    assert written(world, before) == [Request("apply", SERVICE_OF_ROUTERS)]
    before = len(world.cluster.writes)
    await world.settle()
    assert {request.ref for request in written(world, before) if request.verb == "delete"} >= {
        *(ROUTERS, CONFIG, SERVICE_OF_PEERS)
    }
    assert world.conditions()["Ready"] == ("True", "Serving")
    assert world.conditions()["RouterAvailable"] == ("True", "ExternalRouting")


async def test_to_external_the_routers_stay_while_the_service_cannot_be_written() -> None:
    world = World()
    world.ask()
    await serving(world)
    before = len(world.cluster.writes)
    world.edit(RESOURCE, with_router(strategy="External"))
    world.cluster.fail_next(ClusterError("HTTP 500: etcd is slow"))
    assert await world.reconcile() == Requeue(0.0, backoff=True)
    assert not [request for request in world.cluster.writes[before:] if request.verb == "delete"]
    assert {ROUTERS, CONFIG, SERVICE_OF_PEERS} <= world.cache_children().keys()
    await world.settle()
    await world.settle()
    assert not {ROUTERS, CONFIG, SERVICE_OF_PEERS} & world.cache_children().keys()


def written(world: World, before: int) -> list[Request]:
    """The writes of children after the first ones."""
    return [request for request in world.cluster.writes[before:] if request.ref != RESOURCE]


async def test_back_from_external_the_service_changes_once_a_router_is_ready() -> None:
    world = World()
    world.ask(router={"strategy": "External"})
    await world.settle()
    for ref in world.children():
        if ref.name == "qwen-engine" and ref.kind == ROUTERS.kind:
            world.cluster.set_status(ref, deployment_status(1))
    await world.settle()
    world.edit(RESOURCE, with_router())
    await world.settle()

    def component() -> object:
        return world.live(SERVICE_OF_ROUTERS)["spec"]["selector"]["app.kubernetes.io/component"]

    assert component() == "engine"
    assert world.conditions()["Ready"] == ("True", "Serving")
    world.pods_are_ready()
    await world.settle()
    assert component() == "router"
    assert world.conditions()["Ready"] == ("True", "Serving")
