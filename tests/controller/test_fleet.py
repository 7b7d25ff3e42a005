"""The brake over many InferenceDeployments: how many routers a change of the owner's settings replaces at a time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.controller.resource_kind import INFERENCE_DEPLOYMENTS
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Key, Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome
from inference_operator.settings import Settings
from tests.controller.fleet_world import FleetWorld, names
from tests.controller.virtual_time import run
from tests.testing.memory_cluster import Backup

NAMES = ("a", "b", "c", "d", "e")
OF_TEAMS = ("team-1/a", "team-1/b", "team-2/c", "team-2/d", "team-3/e")
"""The same names in several namespaces."""
CHANGED, CORRECTED = "changed", "corrected"


def settings(value: str = "", *, at_a_time: int = 2, canary: str = "") -> Settings:
    """The owner's settings, with an annotation of all routers."""
    defaults = {"podTemplate": {"annotations": {"example.com/setting": value}}} if value else {}
    return Settings(router_defaults=defaults, rollouts={"maxConcurrent": at_a_time, "canary": canary})


def edit(value: str) -> Manifest:
    """A user's edit that replaces routers."""
    return {"router": {"podTemplate": {"annotations": {"example.com/edited": value}}}}


async def changed(world: FleetWorld, value: str = CHANGED, *, at_a_time: int = 2, canary: str = "") -> FleetWorld:
    """The world after a change of the owner's setting."""
    await world.restart(settings(value, at_a_time=at_a_time, canary=canary))
    return world


async def served(*, at_a_time: int = 2, canary: str = "", keys: Sequence[str] = NAMES) -> FleetWorld:
    """A world that serves under the settings before the change. Worlds with the same keys are served once."""
    world = FleetWorld(keys, settings(at_a_time=at_a_time, canary=canary))
    backup = _SERVED.get(tuple(keys))
    if backup is None:
        await world.serve()
        _SERVED[tuple(keys)] = world.cluster.backup()
    else:
        world.cluster.restore(backup)
        await world.restart()
    assert not world.in_turn()
    assert not world.unfinished()
    return world


_SERVED: dict[tuple[str, ...], Backup] = {}


async def finish(world: FleetWorld) -> None:
    """Let all routers be replaced that are being replaced."""
    for key in world.unfinished():
        world.finish(key)
    await world.settle()


def test_a_change_of_the_routers_defaults_reaches_few_at_a_time_and_then_all() -> None:
    async def story() -> None:
        world = await changed(await served())
        reached = []
        while world.unfinished():
            assert world.unfinished() == world.in_turn()
            reached.append(names(world.unfinished()))
            counts = dict(world.cache.shared.fleet.counts())
            assert counts["rolling"] == len(reached[-1])
            assert sum(counts.values()) == len(NAMES)
            await finish(world)
        assert reached == [["a", "b"], ["c", "d"], ["e"]]
        assert names(world.changed(CHANGED)) == list(NAMES)
        assert not world.in_turn()
        assert [world.renewed(key) for key in world.keys] == [""] * len(NAMES)
        before = len(world.cluster.writes)
        await world.restart()
        assert len(world.cluster.writes) == before

    run(story())


def test_engines_of_an_earlier_release_are_renewed_in_the_window_few_at_a_time() -> None:
    image, window = "docker.io/vllm/vllm-openai:v9.9.9", {"start": "0 2 * * *", "end": "0 5 * * *"}
    owners = Settings(gpu_engine_image=image, rollouts={"maxConcurrent": 2, "renewal": window})

    async def story() -> None:
        world = await served()
        night, world.now = world.now, world.now.replace(hour=12)
        await world.restart(owners)
        assert not world.with_image(image)
        world.now = night
        await world.recheck(*world.keys)
        reached = []
        while rolling := world.in_turn():
            reached.append(names(rolling))
            assert len(world.with_image(image)) == sum(map(len, reached))
            for key in rolling:
                world.set_engines(key, ready=1)
            await world.settle()
            await world.recheck(*rolling)
        assert reached == [["a", "b"], ["c", "d"], ["e"]]
        before = len(world.cluster.writes)
        await world.recheck(*world.keys)
        assert len(world.cluster.writes) == before

    run(story())


def test_the_canary_is_renewed_first_also_if_others_look_at_the_clock_before_it() -> None:
    window = {"start": "0 2 * * *", "end": "0 5 * * *"}
    rollouts = {"maxConcurrent": 2, "canary": "default/d", "renewal": window}
    owners = Settings(gpu_engine_image="docker.io/vllm/vllm-openai:v9.9.9", rollouts=rollouts)

    async def story() -> None:
        world = await served(canary="default/d")
        night, world.now = world.now, world.now.replace(hour=12)
        await world.restart(owners)
        assert not world.in_turn()
        world.now = night
        (canary,) = (key for key in world.keys if key.name == "d")
        await world.recheck(*(key for key in world.keys if key != canary))
        assert not world.in_turn()
        await world.recheck(canary)
        assert names(world.in_turn()) == ["d"]
        world.set_engines(canary, ready=1)
        await world.settle()
        await world.recheck(canary)
        assert names(world.in_turn()) == ["a", "b"]

    run(story())


def test_the_canary_goes_first_and_the_others_say_that_they_wait() -> None:
    async def story() -> None:
        world = await changed(await served(canary="default/d"), canary="default/d")
        assert names(world.unfinished()) == ["d"]
        assert [world.renewed(key) for key in world.keys] == [
            *["WaitingForTurn"] * 3,
            "RollingOut",
            "WaitingForTurn",
        ]
        await finish(world)
        assert names(world.unfinished()) == ["a", "b"]

    run(story())


def test_nobody_begins_before_a_canary_that_does_not_exist() -> None:
    async def story() -> None:
        world = await changed(await served(), canary="default/absent")
        assert not world.unfinished()
        await changed(world)
        assert names(world.unfinished()) == ["a", "b"]

    run(story())


async def worsen(world: FleetWorld, *indexes: int) -> None:
    """Let these have their new routers and be no longer healthy."""
    for index in indexes:
        world.set_engines(world.keys[index], ready=0)
        world.finish(world.keys[index])
    await world.settle()
    await world.recheck(*(world.keys[index] for index in indexes))


def test_a_single_one_that_gets_worse_is_named_and_left_behind() -> None:
    async def story() -> None:
        world = await changed(await served(at_a_time=1, keys=OF_TEAMS), at_a_time=1)
        await worsen(world, 0)
        assert world.renewed(world.keys[0]) == "RolloutStopped"
        assert dict(world.cache.shared.fleet.counts()) == {"waiting": 3, "rolling": 1, "failed": 1, "done": 0}
        for name in ("b", "c", "d", "e"):
            assert names(world.unfinished()) == [name], "it takes no place of others"
            await finish(world)
        await world.restart()
        assert dict(world.cache.shared.fleet.counts()) == {"waiting": 0, "rolling": 0, "failed": 1, "done": 4}
        world.set_engines(world.keys[0], ready=1)
        await world.settle()
        await world.recheck(world.keys[0])
        assert not world.in_turn()

    run(story())


def test_two_of_one_namespace_stop_the_rollout_there_and_nowhere_else() -> None:
    async def story() -> None:
        world = await changed(await served(keys=("team-1/a", "team-1/b", "team-1/c", "team-2/d", "team-2/e")))
        await worsen(world, 0, 1)
        assert names(world.unfinished()) == ["d", "e"]
        await finish(world)
        assert (names(world.changed(CHANGED)), world.renewed(world.keys[2])) == (["a", "b", "d", "e"], "WaitingForTurn")
        await world.restart()
        assert names(world.changed(CHANGED)) == ["a", "b", "d", "e"]
        world.set_engines(world.keys[1], ready=1)
        await world.settle()
        await world.recheck(world.keys[1])
        assert names(world.unfinished()) == ["c"]

    run(story())


def test_failures_in_two_namespaces_stop_the_rollout_for_all_until_one_is_healthy() -> None:
    async def story() -> None:
        world = await changed(await served(keys=("team-1/a", "team-2/b", "team-2/c", "team-3/d", "team-4/e")))
        await worsen(world, 0, 1)
        assert [world.renewed(key) for key in world.keys] == [*["RolloutStopped"] * 2, *["WaitingForTurn"] * 3]
        await world.restart()
        assert names(world.changed(CHANGED)) == ["a", "b"]
        world.set_engines(world.keys[0], ready=1)
        await world.settle()
        await world.recheck(world.keys[0])
        assert names(world.unfinished()) == ["c", "d"]

    run(story())


def test_a_canary_that_gets_worse_stops_the_rollout_for_all() -> None:
    async def story() -> None:
        world = await changed(await served(canary="team-2/d", keys=OF_TEAMS), canary="team-2/d")
        await worsen(world, 3)
        assert names(world.changed(CHANGED)) == ["d"]
        world.set_engines(world.keys[3], ready=1)
        await world.settle()
        await world.recheck(world.keys[3])
        assert names(world.unfinished()) == ["a", "b"]

    run(story())


def test_routers_that_never_become_ready_stop_the_rollout_until_the_owner_corrects_the_setting() -> None:
    async def story() -> None:
        world = await changed(await served())
        world.now += timedelta(hours=3)
        await world.recheck(*world.keys)
        assert [world.renewed(key) for key in world.keys] == [*["RolloutStopped"] * 2, *["WaitingForTurn"] * 3]
        await changed(world, CORRECTED)
        assert names(world.unfinished()) == ["a", "b"] == names(world.changed(CORRECTED))
        await finish(world)
        assert names(world.unfinished()) == ["c", "d"]

    run(story())


def test_a_change_that_the_api_server_rejects_counts_as_a_failure() -> None:
    async def story() -> None:
        world = await served(at_a_time=1)
        first = world.keys[0]
        routers = Ref.of(world.routers(first))
        world.cluster.rejected.add(routers)
        await changed(world, at_a_time=1)
        await world.recheck(first)
        assert (world.renewed(first), names(world.changed(CHANGED))) == ("RolloutStopped", ["b"])
        world.cluster.rejected.clear()
        await world.recheck(first)
        assert names(world.changed(CHANGED)) == ["b"], "it waits for a place again"
        await finish(world)
        assert names(world.unfinished()) == ["a"]

    run(story())


def test_a_pause_of_one_that_got_worse_lets_the_others_go_on() -> None:
    async def story() -> None:
        world = await changed(await served())
        await worsen(world, 0, 1)
        assert not world.unfinished()
        world.ask(world.keys[0], {"paused": True})
        await world.settle()
        assert names(world.unfinished()) == ["c", "d"]

    run(story())


def test_an_edit_of_a_user_is_never_held_back() -> None:
    async def story() -> None:
        world = await changed(await served(at_a_time=1), at_a_time=1)
        last = world.keys[-1]
        assert world.renewed(last) == "WaitingForTurn"
        world.ask(last, edit("1"))
        await world.settle()
        assert names(world.unfinished()) == ["a", "e"]
        assert names(world.in_turn()) == ["a"]

    run(story())


def test_a_deleted_one_makes_place() -> None:
    async def story() -> None:
        world = await changed(await served(at_a_time=1), at_a_time=1)
        gone = world.keys.pop(0)
        world.cluster.remove(Ref(INFERENCE_DEPLOYMENT, gone.namespace, gone.name))
        await world.settle()
        assert names(world.unfinished()) == ["b"]

    run(story())


def test_a_resource_with_a_bug_during_its_turn_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        world = await changed(await served())
        first, second = sorted(world.in_turn(), key=str)

        def broken(inputs: Inputs) -> Outcome:
            if inputs.resource.key == first:
                raise ZeroDivisionError
            return outcome(inputs)

        with monkeypatch.context() as patch:
            kind = replace(INFERENCE_DEPLOYMENTS, decide=broken)
            patch.setattr(world.cache, "kinds", {INFERENCE_DEPLOYMENT: kind})
            with pytest.raises(ZeroDivisionError):
                await world.recheck(first)
            world.finish(second)
            await world.settle()
            await world.recheck(*(key for key in world.keys if key != first))
            assert names(world.in_turn()) == [first.name, "c", "d"]
            assert dict(world.cache.shared.fleet.counts())["failed"] == 1
        await finish(world)
        await world.recheck(*world.in_turn())
        await finish(world)
        assert not world.unfinished()
        assert not world.in_turn(), "without the bug its turn ends"

    run(story())


ACTIONS = st.tuples(st.sampled_from(["finish", "break", "heal", "recheck", "restart", "edit"]), st.integers(0, 4))


@given(st.lists(ACTIONS, max_size=8), st.integers(1, 3), st.sampled_from(["", "team-2/c"]))
def test_never_more_are_in_their_turn_than_allowed_whatever_happens(
    actions: list[tuple[str, int]], at_a_time: int, canary: str
) -> None:
    async def story() -> None:
        world = await served(at_a_time=at_a_time, canary=canary, keys=OF_TEAMS)
        await changed(world, at_a_time=at_a_time, canary=canary)
        left_behind: set[Key] = set()
        for number, (action, index) in enumerate(actions):
            key = world.keys[index]
            left_behind |= {key} & world.in_turn() if action == "break" else set()
            before, failed = world.in_turn(), world.cache.shared.fleet.without(None, world.now).is_stopped
            match action:
                case "finish":
                    world.finish(key)
                case "break" | "heal":
                    world.set_engines(key, ready=int(action == "heal"))
                case "restart":
                    await world.restart()
                case "edit":
                    world.ask(key, edit(str(number)))
            await world.recheck(key)
            rolling = dict(world.cache.shared.fleet.counts())["rolling"]
            assert rolling <= at_a_time + len(left_behind), "what failed goes on beside others once it is healthy"
            if failed and world.cache.shared.fleet.without(None, world.now).is_stopped:
                assert world.in_turn() <= before
        for key in world.keys:
            world.set_engines(key, ready=1)
        for _ in range(2 * len(NAMES)):
            await finish(world)
            await world.recheck(*world.in_turn())
        assert not world.in_turn()
        assert names(world.changed(CHANGED)) == list(NAMES)

    run(story())
