"""The pinned router: ready routers keep pod template and configuration when another operator would build others.

Settings that change every router pod, and another template text, stand for the other operator.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from inference_operator.api.pod_defaults import RouterDefaults
from inference_operator.fleet.rollout_slots import NO_OTHERS, TURN_ANNOTATION, Fleet, FleetState
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Shared
from inference_operator.pipeline.outcomes import Planned
from inference_operator.router import children as children_module
from inference_operator.router import haproxy
from inference_operator.router.affinity import AFFINITY_FILE
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.pinned_router import (
    MAX_BYTES,
    ROUTER_PIN,
    router_inputs,
)
from inference_operator.settings import Settings
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, PodView
from tests.router.test_haproxy import REQUEST
from tests.testing.builders import CONFIG, NOW, ROUTERS, SETTINGS, inference_deployment, inputs, planned
from tests.testing.random_specs import Specs

RAW = inference_deployment()
MADE = planned(RAW).desired
LATER = Settings(router_image="example.com/router:later", image_pull_policy="Always", dns_staleness_seconds=77)
SPECS = 120


def router_pod(children: Mapping[Ref, Manifest]) -> PodView:
    template = children[ROUTERS]["spec"]["template"]["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION]
    return PodView(
        "qwen-router-a", "router", NOW, ready=True, terminating=False, failed=False, problem=None, template=template
    )


SERVES = router_pod(MADE)


@pytest.fixture(autouse=True)
def _another_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `MADE` was built, the release has another haproxy.cfg."""
    render = haproxy.config_files

    def later(request: RouterInputs) -> dict[str, str]:
        return {name: f"# later\n{text}" for name, text in render(request).items()}

    monkeypatch.setattr(children_module, "config_files", later)


def later(
    raw: Manifest = RAW,
    *pods: PodView,
    routers: Manifest = MADE[ROUTERS],
    config: Manifest | None = MADE[CONFIG],
    settings: Settings = LATER,
) -> Planned:
    """What a later release decides about the children of an earlier one."""
    children = {**MADE, ROUTERS: routers}
    if config is None:
        del children[CONFIG]
    else:
        children[CONFIG] = config
    result = outcome(inputs(raw, children=children.values(), pods=pods, settings=settings))
    assert isinstance(result, Planned)
    return result


def parts(result: Planned) -> tuple[Manifest, Manifest]:
    """Pod template and configuration."""
    return result.desired[ROUTERS]["spec"]["template"], result.desired[CONFIG]["data"]


EARLIER = MADE[ROUTERS]["spec"]["template"], MADE[CONFIG]["data"]


def is_renewed(result: Planned) -> bool:
    """Whether both parts are the later release's; neither may be without the other."""
    template, data = parts(result)
    assert (template["spec"]["containers"][0]["image"] == LATER.router_image) == data["haproxy.cfg"].startswith("# l")
    return (template, data) != EARLIER


def test_ready_routers_are_written_by_no_later_release() -> None:
    result = later(RAW, SERVES)
    assert (result.desired[ROUTERS], result.desired[CONFIG]) == (MADE[ROUTERS], MADE[CONFIG])
    assert result.router.latest_template != SERVES.template


def test_the_later_release_is_used_when_no_router_is_ready() -> None:
    for pods in ((), (replace(SERVES, ready=False),), (replace(SERVES, template="of another"),)):
        result = later(RAW, *pods)
        assert is_renewed(result)
        assert result.router.latest_template == router_pod(result.desired).template


@pytest.mark.parametrize(
    "asked",
    [
        {"router": {"podTemplate": {"annotations": {"example.com/renewed": "1"}}}},
        {"router": {"strategy": "PrefixAffinity"}},
        {"router": {"access": "GatewaysOnly"}},
        {"router": {"keys": {"secretRef": {"name": "keys"}, "gateways": "Trust"}}},
        {"router": {"resources": {"limits": {"memory": "1Gi"}}}},
        {"drainTimeout": "7m"},
        {"engine": {"maxNumSeqs": 7}},
        {"model": {"source": "hf://Qwen/Qwen3-8B", "servedName": "other"}},
        {"replicas": 40},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_an_edit_of_what_routers_are_built_from_takes_the_later_release(asked: Manifest) -> None:
    assert is_renewed(later({**RAW, "spec": {**RAW["spec"], **asked}}, SERVES))


@pytest.mark.parametrize(
    "asked",
    [
        {"replicas": 3},
        {"router": {"service": {"annotations": {"a": "b"}}}},
        {"router": {"replicas": 5}},
        {"podTemplate": {"labels": {"a": "b"}}},
    ],
    ids=str,
)
def test_an_edit_of_anything_else_keeps_the_pinned_router(asked: Manifest) -> None:
    result = later({**RAW, "spec": {**RAW["spec"], **asked}}, SERVES)
    assert parts(result) == EARLIER
    assert result.desired[ROUTERS]["spec"]["replicas"] == asked.get("router", {}).get("replicas", 2)


@pytest.mark.parametrize("many", [{"replicas": 4}, {"autoscaling": {"maxReplicas": 4}}])
def test_the_default_strategy_is_that_of_the_specification_and_moves_no_router_that_serves(many: Manifest) -> None:
    assert AFFINITY_FILE in planned(inference_deployment(**many)).desired[CONFIG]["data"]
    assert AFFINITY_FILE not in planned(inference_deployment(replicas=3)).desired[CONFIG]["data"]
    assert not is_renewed(later(inference_deployment(**many), SERVES))
    asked = later(inference_deployment(**many, router={"strategy": "LeastOutstanding"}), SERVES)
    assert not is_renewed(asked), "it was the default of earlier releases"


def test_least_outstanding_ends_an_affinity_by_default() -> None:
    built = planned(inference_deployment(replicas=4)).desired
    raw = inference_deployment(replicas=4, router={"strategy": "LeastOutstanding"})
    ended = outcome(inputs(raw, children=built.values(), pods=[router_pod(built)]))
    assert AFFINITY_FILE not in ended.desired[CONFIG]["data"]


def test_an_edit_of_the_owners_router_defaults_takes_the_later_release() -> None:
    env = LATER.router_defaults.model_validate({"env": [{"name": "TZ", "value": "UTC"}]})
    renewed = LATER.router_defaults.model_validate({"podTemplate": {"annotations": {"example.com/renewed": "1"}}})
    for defaults in (env, renewed):
        assert is_renewed(later(RAW, SERVES, settings=LATER.model_copy(update={"router_defaults": defaults})))


def test_a_configuration_that_was_edited_or_deleted_is_restored_as_it_was() -> None:
    edited = {**MADE[CONFIG], "data": {"haproxy.cfg": "global"}}
    slots = {"annotations": {"inference-operator.dev/slots": "4096"}}
    counted = {**MADE[CONFIG], "metadata": {**MADE[CONFIG]["metadata"], **slots}}
    for config in (edited, counted, None):
        result = later(RAW, SERVES, config=config)
        assert (result.desired[ROUTERS], result.desired[CONFIG]) == (MADE[ROUTERS], MADE[CONFIG])


def test_slots_of_scaled_down_engines_stay_without_the_live_configuration() -> None:
    large = outcome(inputs(inference_deployment(replicas=40), children=MADE.values(), pods=[SERVES]))
    assert isinstance(large, Planned)
    children = {ref: one for ref, one in large.desired.items() if ref != CONFIG}
    small = outcome(inputs(RAW, children=children.values(), pods=[router_pod(children)], settings=LATER))
    assert isinstance(small, Planned)
    assert small.desired[CONFIG] == large.desired[CONFIG]


def without_pin(_: str) -> str:
    return ""


def cut(text: str) -> str:
    return text[:-20]


def other_file(text: str) -> str:
    return json.dumps({**json.loads(text), "files": {"haproxy.cfg": "global"}})


def no_files(text: str) -> str:
    return json.dumps({**json.loads(text), "files": "%"})


def other_slots(text: str) -> str:
    return json.dumps({**json.loads(text), "slots": 64})


@pytest.mark.parametrize("damaged", [without_pin, cut, other_file, no_files, other_slots])
def test_routers_without_an_intact_pin_roll_once(damaged: Callable[[str], str]) -> None:
    """Those of the operator before this one have none."""
    annotations = dict(MADE[ROUTERS]["metadata"]["annotations"])
    annotations[ROUTER_PIN.key] = damaged(annotations[ROUTER_PIN.key])
    routers = {**MADE[ROUTERS], "metadata": {**MADE[ROUTERS]["metadata"], "annotations": annotations}}
    once = later(RAW, SERVES, routers=routers)
    assert is_renewed(once)
    again = outcome(inputs(RAW, children=once.desired.values(), pods=[router_pod(once.desired)], settings=LATER))
    assert again.desired == once.desired


def test_a_pin_with_the_most_slots_fits_into_the_annotations_of_an_object() -> None:
    pinned = ROUTER_PIN.read(planned(inference_deployment(replicas=256)).desired[ROUTERS])
    assert pinned
    assert pinned.content.slots == 512
    assert len(ROUTER_PIN.write(pinned)) < 2**17  # of 2**18, which all annotations of an object share


def test_inputs_of_routers_are_those_that_earlier_releases_have_hashed() -> None:
    """Another dictionary for the same router restarts all routers at the upgrade: add no key with a default value."""
    assert router_inputs(REQUEST).keys() <= {
        "defaults",
        "drain_seconds",
        "engine_health_path",
        "engine_max_concurrency",
        "engine_port",
        "engines_host",
        "model_names",
        "slots",
        "spec",
    }


def test_routers_with_equal_inputs_hashes_have_equal_templates_and_configurations() -> None:
    """Otherwise an edit would have no effect while routers are ready."""
    source, seen = Specs(0), dict[str, tuple[Manifest, Manifest]]()
    for _ in range(SPECS):
        spec = source.valid()
        for one in (spec, {**spec, "replicas": 1}, {name: value for name, value in spec.items() if name != "engine"}):
            result = outcome(inputs(inference_deployment(source="", **one), settings=SETTINGS))
            if isinstance(result, Planned) and ROUTERS in result.desired:
                pinned = ROUTER_PIN.read(result.desired[ROUTERS])
                assert pinned
                assert seen.setdefault(pinned.inputs_hash, parts(result)) == parts(result)
    assert len(seen) > 1


def test_the_annotation_fits_beside_others_with_every_script_and_is_left_out_where_it_does_not() -> None:
    everything = {
        "strategy": "PrefixAffinity",
        "usage": "Enabled",
        "keys": {"secretRef": {"name": "users"}},
        "tls": {"secretRef": {"name": "certificate"}},
    }
    built = outcome(inputs(inference_deployment(router=everything), settings=SETTINGS))
    assert isinstance(built, Planned)
    pinned = ROUTER_PIN.read(built.desired[ROUTERS])
    assert pinned
    assert len(ROUTER_PIN.write(pinned)) < 0.6 * MAX_BYTES
    large = replace(pinned.content, files={"haproxy.cfg": "x" * MAX_BYTES})
    assert ROUTER_PIN.entry(replace(pinned, stored="", content=large)) == {}


DEFAULTS = {"podTemplate": {"annotations": {"example.com/setting": "1"}}}
OWNERS = [SETTINGS.model_copy(update={"router_defaults": RouterDefaults.model_validate(DEFAULTS)})]
OWNERS.append(SETTINGS.model_copy(update={"cluster_domain": "cluster.example"}))
EDIT = {"router": {"podTemplate": {"annotations": {"example.com/renewed": "1"}}}}
OBSERVED = {**RAW, "status": {"observedGeneration": RAW["metadata"]["generation"]}}
STOPPED = Fleet(is_stopped=True)


def of_owner(
    settings: Settings, raw: Manifest = RAW, *, fleet: Fleet = STOPPED, routers: Manifest = MADE[ROUTERS]
) -> tuple[FleetState, bool]:
    """What is decided after a change of the owner's settings: its state, and whether routers get another template."""
    children = {**MADE, ROUTERS: routers}
    found = inputs(raw, children=children.values(), pods=[SERVES], settings=settings)
    result = outcome(replace(found, shared=Shared(fleet)))
    has_turn = TURN_ANNOTATION.key in result.desired[ROUTERS]["metadata"]["annotations"]
    assert has_turn is (result.fleet_state is FleetState.ROLLING)
    return result.fleet_state, result.desired[ROUTERS]["spec"]["template"] != routers["spec"]["template"]


@pytest.mark.parametrize("settings", OWNERS, ids=["routerDefaults", "clusterDomain"])
def test_a_change_of_the_owner_is_held_until_its_turn_and_an_edit_never(settings: Settings) -> None:
    edited = {**RAW, "spec": {**RAW["spec"], **EDIT}}
    assert of_owner(settings) == (FleetState.WAITING, False)
    assert of_owner(settings, fleet=NO_OTHERS) == (FleetState.ROLLING, True)
    assert of_owner(settings, edited) == (FleetState.DONE, True)


def test_of_several_upstreams_only_unusual_facts_are_pinned_so_that_those_of_earlier_releases_still_match() -> None:
    usual = REQUEST.upstreams[0]
    odd = replace(usual, name="other", has_adapters=True, lists_models=False)
    first, second = router_inputs(replace(REQUEST, upstreams=(usual, odd)))["upstreams"]
    assert not {"has_adapters", "lists_models"} & first.keys()
    assert (second["has_adapters"], second["lists_models"]) == (True, False)
