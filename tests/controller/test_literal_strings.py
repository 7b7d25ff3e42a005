"""An upgrade from a release that left `$(NAME)` to Kubernetes: such engines are replaced, and all others stay.

`engines_before_literal_strings.json` has the engines' Deployments that commit ba5ff5f made, by case.
"""

import json
from pathlib import Path

import pytest

from inference_operator.manifest import Manifest
from tests.controller.test_rollout import APPLY, put_engine
from tests.controller.world import RESOURCE, World
from tests.testing.builders import ENGINES, ready_pod

FORMER: dict[str, Manifest] = json.loads(
    Path(__file__).with_name("engines_before_literal_strings.json").read_text("utf-8")
)


def with_dollars(engines: Manifest) -> list[str]:
    """The arguments and values of variables that have a `$`."""
    (container,) = engines["spec"]["template"]["spec"]["containers"]
    texts = [*container["args"], *(one.get("value", "") for one in container["env"])]
    return [text for text in texts if "$" in text]


async def upgraded(world: World, case: str) -> int:
    """The writes to the Deployment after a new release started on what the former one left, with one ready engine."""
    world.ask(**FORMER[case]["spec"])
    engines = FORMER[case]["engines"]
    owner = {**engines["metadata"]["ownerReferences"][0], "uid": world.live(RESOURCE)["metadata"]["uid"]}
    metadata = {**engines["metadata"], "ownerReferences": [owner]}
    await world.cluster.apply(ENGINES, {**engines, "metadata": metadata}, force=True)
    put_engine(world, "qwen-engine-old", ready_pod())
    await world.restart()
    return (await world.settle()).count(APPLY)


@pytest.mark.parametrize("case", ["expanded argument", "expanded variable"])
async def test_engines_in_which_kubernetes_expands_a_string_are_replaced_once(world: World, case: str) -> None:
    assert await upgraded(world, case) == 1
    former = with_dollars(FORMER[case]["engines"])
    assert with_dollars(world.live(ENGINES)) == [text.replace("$", "$$") for text in former] != []
    assert (await world.settle()).count(APPLY) == 0


async def test_engines_with_other_dollars_keep_their_template(world: World) -> None:
    assert await upgraded(world, "other dollars") == 0
    former = FORMER["other dollars"]["engines"]["spec"]["template"]
    assert world.live(ENGINES)["spec"]["template"] == former
