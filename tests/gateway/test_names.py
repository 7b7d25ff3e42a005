"""Whose each name of a gateway is, and where its requests go."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import pytest

from inference_operator.api.model_gateway import AliasSpec
from inference_operator.api.resource import resource
from inference_operator.gateway.models import Model, model
from inference_operator.gateway.names import MAX_BYTES, MAX_NAMES, Names, listed, names
from tests.testing.builders import inference_deployment
from tests.testing.lua_scripts import script

A = Model("a", ("a", "org/a"), "10.0.0.1")
B = Model("b", ("b",), "10.0.0.2")
CHATS = Model("c", ("chat",), "10.0.0.3")
MORE = Model("d", ("chat",), "10.0.0.4")
ANY = Model("e", ("e",), "10.0.0.5", takes_any_name=True)
OUT = Model("f", ("f",), "10.0.0.6", reason="InsufficientGpuMemory")

NINE, FALLBACK = {"name": "c", "weight": 9}, {"name": "e", "fallback": True}


def alias(name: str, *targets: dict[str, object]) -> AliasSpec:
    return AliasSpec.model_validate({"name": name, "targets": list(targets)})


def found(*models: Model, aliases: tuple[AliasSpec, ...] = (), former: Mapping[str, str] | None = None) -> Names:
    return names({model.name: model for model in models}, aliases, former or {})


@pytest.mark.parametrize(("replicas", "reason"), [(0, "ScaledToZero"), (2, "")])
def test_only_a_model_that_nobody_wants_is_refused_at_zero_and_none_that_a_drill_holds_there(
    replicas: int, reason: str
) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "ScaledToZero", "message": "", "observedGeneration": 1}
    ready["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    raw = inference_deployment(replicas=replicas) | {"status": {"observedGeneration": 1, "conditions": [ready]}}
    found = resource(raw)
    service = {"metadata": {"ownerReferences": [found.owner.reference]}, "spec": {"clusterIP": "10.0.0.1"}}
    assert model(found, service).reason == reason


def test_each_name_of_a_model_leads_to_its_service() -> None:
    result = found(A, B, OUT)
    assert result.text == ("a 10.0.0.1|80|a\nb 10.0.0.2|80|b\nf -|InsufficientGpuMemory|f\norg/a 10.0.0.1|80|a\n")
    assert listed(result.text) == result.values
    assert not result.refused


@pytest.mark.parametrize(
    ("former", "owner"),
    [({}, "c"), ({"chat": "10.0.0.4|80|d"}, "d"), ({"chat": "10.0.0.9|80|gone"}, "c"), ({"chat": "-|Stalled|d"}, "d")],
)
def test_a_name_stays_at_the_model_that_has_it(former: dict[str, str], owner: str) -> None:
    result = found(CHATS, MORE, former=former)
    assert result.values["chat"].endswith(f"|{owner}")
    (refused,) = result.refused
    assert f"is taken by {owner}" in refused


def test_who_asks_for_a_name_has_it_before_who_has_only_its_repository() -> None:
    hub = Model("a", ("x", "org/a"), "10.0.0.1", hub_name="org/a")
    asks = Model("b", ("org/a",), "10.0.0.2")
    result = found(hub, asks)
    assert (result.values["org/a"], result.refused) == (asks.route, [])
    assert found(hub, asks, former=result.values).values["org/a"] == asks.route
    (refused,) = found(hub, asks, former={"org/a": hub.route}).refused
    assert "`org/a` of the InferenceDeployment b is taken by a" in refused


@pytest.mark.parametrize("former", [f"*1|{CHATS.route}", "-|Stalled|"])
def test_no_model_that_comes_takes_the_name_of_an_alias(former: str) -> None:
    asked = alias("chat", {"name": "c"})
    result = found(CHATS, replace(MORE, name="0"), aliases=(asked,), former={"chat": former})
    assert result.values["chat"] == f"*1|{CHATS.route}"
    (refused,) = result.refused
    assert "`chat` of the InferenceDeployment 0 is taken by an alias" in refused


def test_a_model_whose_specification_cannot_be_read_keeps_its_names() -> None:
    unread = Model("c", ("c",), "10.0.0.3", takes_any_name=True, keeps_names=True)
    former = found(CHATS, aliases=(alias("new", NINE),)).values
    assert found(unread, MORE, former=former).values["chat"] == CHATS.route
    named = {"new": f"*9|{CHATS.route}"}
    assert found(unread, aliases=(alias("new", NINE),), former=named).values["new"] == named["new"]


def test_a_list_has_room_for_a_thousand_models_and_as_many_of_their_adapters_as_fit() -> None:
    models = [Model(f"m{n}", (f"m{n}", *(f"{'x' * 100}-{n}-{k}" for k in range(64))), "10.0.0.1") for n in range(1_000)]
    result = found(*models, aliases=(alias("z", {"name": "m1"}),))
    assert len(result.text) <= MAX_BYTES
    assert {f"m{n}" for n in range(1_000)} < result.values.keys()
    assert "names are left out, of adapters first" in result.refused[0]
    late = max(result.values.keys() - {f"m{n}" for n in range(1_000)})
    more = Model("n", ("n", "a-new-adapter"), "10.0.0.2")
    assert late in found(*models, more, former={late: models[0].route}).values
    short = [Model(f"m{n}", (f"m{n}", *(f"{n}-{k}" for k in range(20))), "fd00::1") for n in range(1_000)]
    assert len(found(*short).values) == MAX_NAMES
    read = script("adapters.lua")[b"values"](found(*short).text.encode())
    assert len(list(read.items())) == MAX_NAMES


@pytest.mark.parametrize(
    ("asked", "models", "value", "refused"),
    [
        (alias("chat", NINE, {"name": "d"}), (CHATS, MORE), f"*9|{CHATS.route};1|{MORE.route}", ()),
        (alias("chat", {"name": "c"}, FALLBACK), (CHATS, ANY), f"*1|{CHATS.route};f|{ANY.route}", ()),
        (alias("new", {"name": "e"}, {"name": "a"}), (A, ANY), "*1|10.0.0.5|80|e", ("do not serve this name",)),
        (alias("new", {"name": "e"}, {"name": "gone"}), (ANY,), "*1|10.0.0.5|80|e", ("no such InferenceDeployment",)),
        (alias("chat", {"name": "e"}), (CHATS, ANY), "10.0.0.3|80|c", ("is a name of the InferenceDeployment c",)),
        (alias("f", {"name": "f"}), (OUT,), "-|InsufficientGpuMemory|", ()),
        (alias("new", {"name": "a"}), (A,), None, ("do not serve this name",)),
    ],
)  # fmt: skip
def test_an_alias(asked: AliasSpec, models: tuple[Model, ...], value: str | None, refused: tuple[str, ...]) -> None:
    result = found(*models, aliases=(asked,))
    assert result.values.get(asked.name) == value
    assert len(result.refused) == len(refused)
    assert all(text in said for text, said in zip(refused, result.refused, strict=True))


def test_gateways_read_what_the_operator_writes() -> None:
    result = found(A, B, CHATS, MORE, OUT, aliases=(alias("chat", {"name": "c"}, {"name": "d", "fallback": True}),))
    values = script("adapters.lua")[b"values"](result.text.encode())
    assert {name.decode(): value.decode() for name, value in values.items()} == result.values


@pytest.mark.parametrize("weight", [1, 9])
def test_a_changed_weight_moves_only_towards_the_target_that_gains(weight: int) -> None:
    choice = script("gateway.lua")

    def number(text: bytes) -> int:
        return int.from_bytes(hashlib.blake2s(text, digest_size=4).digest())

    def target(value: bytes, key: int) -> bytes:
        first, _ = choice(value, b"user%d" % key, number)
        return bytes(first)[-1:]

    before = [target(b"*%d|10.0.0.1|80|a;1|10.0.0.2|80|b" % weight, key) for key in range(2_000)]
    after = [target(b"*%d|10.0.0.1|80|a;5|10.0.0.2|80|b" % weight, key) for key in range(2_000)]
    assert abs(before.count(b"b") / 2_000 - 1 / (weight + 1)) < 0.05
    assert abs(after.count(b"b") / 2_000 - 5 / (weight + 5)) < 0.05
    assert {new for old, new in zip(before, after, strict=True) if old == b"b"} == {b"b"}


def test_a_fallback_comes_after_the_target() -> None:
    choice = script("gateway.lua")
    assert choice(b"*1|i|80|a;f|i|80|b", b"u", lambda _: 7) == (b"i|80|a", b"i|80|b")
    assert choice(b"*f|i|80|b;f|i|80|c", b"u", lambda _: 7) == (b"i|80|b", b"i|80|c")
