"""Lookups: which requests they send, how often, and which resources get the result."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest

from inference_operator.controller.cluster import ClusterError, ForbiddenError, NotFoundError, RejectedError
from inference_operator.controller.workqueue import Priority
from inference_operator.kube.lookup_poller import (
    FIRST_BACKOFF_SECONDS,
    GPUS_HOLD_SECONDS,
    LATEST_BACKOFF_SECONDS,
    LOG_HOLDS_SECONDS,
    LookupPoller,
    look_up,
)
from inference_operator.manifest import CLAIM, NODE, Key, Kind, Manifest, Ref
from inference_operator.views.lookups import (
    ClaimLookup,
    ClaimView,
    ClusterGpus,
    FreeGpusLookup,
    LogLookup,
    LogText,
    Lookup,
    LookupResult,
    Unavailable,
)
from inference_operator.views.untrusted_text import LOG_CHARACTERS
from tests.controller.virtual_time import run

A, B = Key("default", "a"), Key("default", "b")
ENDED = LogLookup("default", "engine-a", "u", "engine", run=0, previous=False, running=False)
RUNNING = replace(ENDED, running=True)
OTHER = replace(ENDED, pod="engine-b", uid="v")


@dataclass(slots=True)
class Stage:
    """Lookups in virtual time, with their callbacks recorded."""

    answers: list[str | ClusterError] = field(default_factory=list)
    seen: dict[Lookup, LookupResult] = field(default_factory=dict)
    asked: list[Key] = field(default_factory=list)
    priorities: set[Priority] = field(default_factory=set)
    times: list[float] = field(default_factory=list)

    async def read_log(self, look: LogLookup, *, lines: int, size: int) -> str:  # noqa: ARG002 - the protocol's
        self.times.append(asyncio.get_running_loop().time())
        answer: str | ClusterError = self.answers.pop(0) if self.answers else f"run {look.run}"
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    async def each(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,  # noqa: ARG002 - the protocol's
        labels: str | None = None,  # noqa: ARG002 - the protocol's
        fields: str | None = None,  # noqa: ARG002 - the protocol's
    ) -> AsyncIterator[Manifest]:
        self.times.append(asyncio.get_running_loop().time())
        if kind == NODE and self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, ClusterError):
                raise answer
            yield json.loads(answer)

    async def get(self, ref: Ref) -> Manifest | None:
        self.times.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0)
        if isinstance(answer, ClusterError):
            raise answer
        found: Manifest | None = json.loads(answer)
        return found if ref.kind == CLAIM else None

    def add(self, key: Key, priority: Priority) -> None:
        self.asked.append(key)
        self.priorities.add(priority)

    def tell(self, look: Lookup, found: LookupResult | None) -> None:
        if found is None:
            del self.seen[look]
        else:
            self.seen[look] = found


def priorities_of(*keys: Key) -> set[Priority]:
    async def script(looks: LookupPoller) -> None:
        for key in keys:
            looks.set_lookups(key, [ENDED])
        await asyncio.sleep(1)

    return play(script).priorities


def test_a_result_that_several_resources_share_does_not_keep_an_edit_waiting() -> None:
    assert (priorities_of(A), priorities_of(A, B)) == ({Priority.HIGH}, {Priority.NORMAL})


def play(script: Callable[[LookupPoller], Awaitable[None]], answers: Iterable[str | ClusterError] = ()) -> Stage:
    stage = Stage(answers=list(answers))

    async def everything() -> None:
        looks = LookupPoller(stage, stage.tell, stage.add)
        workers = [asyncio.create_task(looks.work()) for _ in range(2)]
        await script(looks)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    run(everything())
    return stage


def test_the_log_of_an_ended_container_is_read_once_for_all_resources() -> None:
    async def script(looks: LookupPoller) -> None:
        looks.set_lookups(A, [ENDED])
        looks.set_lookups(B, [ENDED, OTHER])
        await asyncio.sleep(1)
        looks.set_lookups(A, [ENDED])
        await asyncio.sleep(10_000)

    stage = play(script)
    assert stage.times == [0, 0]
    assert stage.seen == {ENDED: LogText("run 0"), OTHER: LogText("run 0")}
    assert sorted(stage.asked) == [A, B, B]


def test_a_second_resource_with_the_same_lookup_causes_no_second_request() -> None:
    async def script(looks: LookupPoller) -> None:
        looks.set_lookups(A, [ENDED])
        await asyncio.sleep(1)
        looks.set_lookups(B, [ENDED])
        await asyncio.sleep(1)

    stage = play(script)
    assert (len(stage.times), stage.asked) == (1, [A])


def test_the_log_of_the_previous_run_stays_known_until_the_next_run_is_read() -> None:
    known: list[LookupResult] = []

    async def script(looks: LookupPoller) -> None:
        looks.set_lookups(A, [ENDED])
        await asyncio.sleep(1)
        looks.set_lookups(A, [replace(ENDED, previous=True)])
        await asyncio.sleep(1)
        looks.set_lookups(A, [replace(ENDED, run=1)])
        known.append(stage.seen[ENDED])
        await asyncio.sleep(1)
        known.append(stage.seen[ENDED])

    stage = Stage()

    async def everything() -> None:
        looks = LookupPoller(stage, stage.tell, stage.add)
        worker = asyncio.create_task(looks.work())
        await script(looks)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)

    run(everything())
    assert (stage.times, known) == ([0, 2], [LogText("run 0"), LogText("run 1")])


def test_the_log_of_a_running_container_is_read_again_and_reported_only_when_it_changed() -> None:
    async def script(looks: LookupPoller) -> None:
        looks.set_lookups(A, [RUNNING])
        await asyncio.sleep(3.5 * LOG_HOLDS_SECONDS)

    stage = play(script, ["loading", "loading", "compiling", "compiling"])
    assert stage.times == [0, LOG_HOLDS_SECONDS, 2 * LOG_HOLDS_SECONDS, 3 * LOG_HOLDS_SECONDS]
    assert stage.asked == [A, A]


def test_a_lookup_that_no_resource_needs_is_removed() -> None:
    async def script(looks: LookupPoller) -> None:
        looks.set_lookups(A, [RUNNING])
        looks.set_lookups(B, [RUNNING])
        await asyncio.sleep(1)
        looks.set_lookups(A, [])
        await asyncio.sleep(LOG_HOLDS_SECONDS)
        looks.set_lookups(B, [])
        await asyncio.sleep(10_000)

    stage = play(script)
    assert stage.times == [0, LOG_HOLDS_SECONDS]
    assert stage.seen == {}


def test_a_failing_lookup_is_reported_once_and_retried_with_growing_waits() -> None:
    async def script(looks: LookupPoller) -> None:
        looks.set_lookups(A, [ENDED])
        await asyncio.sleep(3600)

    stage = play(script, [ClusterError("no route")] * 1000)
    assert stage.seen == {ENDED: Unavailable("its node does not answer")}
    assert stage.asked == [A]
    gaps = [later - earlier for earlier, later in zip(stage.times, stage.times[1:], strict=False)]
    assert gaps[0] == FIRST_BACKOFF_SECONDS
    assert gaps == sorted(gaps)
    assert gaps[-1] == LATEST_BACKOFF_SECONDS
    assert len(stage.times) < 20


def test_a_forbidden_lookup_succeeds_after_the_right_is_granted() -> None:
    async def script(looks: LookupPoller) -> None:
        looks.set_lookups(A, [ENDED])
        await asyncio.sleep(60)

    stage = play(script, [ForbiddenError("no"), ForbiddenError("no"), "at last"])
    assert stage.seen == {ENDED: LogText("at last")}
    assert (len(stage.times), stage.asked) == (3, [A, A])


def test_an_unexpected_exception_in_one_lookup_does_not_stop_the_others() -> None:
    class Broken(Stage):
        async def read_log(self, look: LogLookup, *, lines: int, size: int) -> str:
            if look == OTHER:
                raise RuntimeError("a defect")
            return await Stage.read_log(self, look, lines=lines, size=size)

    stage = Broken()

    async def everything() -> None:
        looks = LookupPoller(stage, stage.tell, stage.add)
        worker = asyncio.create_task(looks.work())
        looks.set_lookups(A, [OTHER])
        await asyncio.sleep(1)
        looks.set_lookups(B, [ENDED])
        await asyncio.sleep(1)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)

    run(everything())
    assert stage.seen == {OTHER: Unavailable("the operator failed to"), ENDED: LogText("run 0")}


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ForbiddenError("f"), "the operator has no right to it"),
        (NotFoundError("n"), "it is gone"),
        (RejectedError("previous terminated container not found"), "there is none"),
        (ClusterError("c"), "its node does not answer"),
    ],
)
async def test_a_failed_lookup_is_a_result_and_not_an_exception(error: ClusterError, why: str) -> None:
    assert await look_up(Stage(answers=[error]), ENDED) == Unavailable(why)


async def test_the_end_of_a_log_is_kept_without_secrets() -> None:
    text = "some words\n" * (LOG_CHARACTERS // 10) + "HF_TOKEN=abc\n"
    found = await look_up(Stage(answers=[text]), ENDED)
    assert isinstance(found, LogText)
    assert found.text.endswith("some words\nHF_TOKEN=[hidden]\n")
    assert found.text.startswith("some words\n")
    assert LOG_CHARACTERS - 100 < len(found.text) <= LOG_CHARACTERS


def test_free_gpus_are_counted_once_for_all_resources_and_again_after_the_interval() -> None:
    async def script(looks: LookupPoller) -> None:
        looks.set_lookups(A, [FreeGpusLookup("nvidia.com/gpu")])
        await asyncio.sleep(1)
        looks.set_lookups(B, [FreeGpusLookup("nvidia.com/gpu")])
        await asyncio.sleep(1.5 * GPUS_HOLD_SECONDS)

    stage = play(script)
    nodes_and_pods_without_one = 2
    assert stage.times == [0] * nodes_and_pods_without_one + [GPUS_HOLD_SECONDS] * nodes_and_pods_without_one
    assert stage.seen == {FreeGpusLookup("nvidia.com/gpu"): ClusterGpus((), 0)}
    assert stage.asked == [A]


async def test_a_lookup_of_free_gpus_without_the_right_to_list_nodes_is_a_result() -> None:
    found = await look_up(Stage(answers=[ForbiddenError("no")]), FreeGpusLookup("nvidia.com/gpu"))
    assert found == Unavailable("the operator has no right to it")


async def test_the_access_modes_of_a_claim_are_looked_up_and_a_claim_that_is_not_there_is_a_result() -> None:
    look = ClaimLookup("default", "models")
    found = await look_up(Stage(answers=['{"spec": {"accessModes": ["ReadWriteOnce"]}}']), look)
    assert found == ClaimView(("ReadWriteOnce",))
    assert await look_up(Stage(answers=["null"]), look) == Unavailable("there is none")
