"""Two operators that watch one namespace: which of them acts, as each decides it for itself."""

from datetime import datetime, timedelta

from inference_operator.api.resource import Resource, resource
from inference_operator.api.status import OperatorStatus, Status
from inference_operator.controller.cluster import ForbiddenError
from inference_operator.controller.other_operators import OTHER_OPERATOR, RECHECK, OtherOperators
from inference_operator.controller.reconciler import Reconciler
from inference_operator.manifest import Manifest
from inference_operator.status.events import Event
from tests.controller.world import RESOURCE, World
from tests.testing.builders import KEY, NOW, inference_deployment

OLD, NEW = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
US, THEM = "system:serviceaccount:ours:operator", "system:serviceaccount:theirs:operator"


class Rights:
    """The API server's answers, and the questions."""

    def __init__(self, *accounts: str) -> None:
        self.accounts = set(accounts)
        self.asked: list[tuple[str, str]] = []
        self.is_forbidden = False

    async def may_act(self, account: str, namespace: str) -> bool:
        self.asked.append((account, namespace))
        if self.is_forbidden:
            raise ForbiddenError("localsubjectaccessreviews is forbidden")
        return account in self.accounts


def written(account: str | None = None, since: str = OLD, *, namespace: str = KEY.namespace) -> Resource:
    """An InferenceDeployment whose status an operator has written."""
    manifest = inference_deployment(name=KEY.name)
    manifest["metadata"]["namespace"] = namespace
    if account:
        manifest["status"] = Status(operator=OperatorStatus(account=account, since=since)).dump()
    return resource(manifest)


def operator(rights: Rights, *existing: Resource, since: str = NEW) -> OtherOperators:
    found = OtherOperators(US, rights.may_act)
    found.begin(since, existing)
    return found


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


async def test_the_younger_leaves_the_namespace_alone_while_the_older_has_its_rights() -> None:
    rights = Rights(THEM)
    younger = operator(rights)
    assert await younger.other(written(THEM), NOW) == THEM
    assert await younger.other(written(), NOW) == THEM, "a new InferenceDeployment of that namespace too"
    assert await younger.other(written(namespace="elsewhere"), NOW) is None
    assert younger.count(NOW) == 1
    assert rights.asked == [(THEM, KEY.namespace)], "one question for the namespace"

    rights.accounts.clear()
    assert await younger.other(written(THEM), later(1)) == THEM, "it does not ask again at once"
    assert await younger.other(written(THEM), NOW + RECHECK) is None
    assert younger.count(NOW + RECHECK) == 0


async def test_the_older_acts_and_writes_its_name() -> None:
    rights = Rights(THEM)
    older = operator(rights, since=OLD)
    assert await older.other(written(THEM, NEW), NOW) is None
    assert older.claim(written(THEM, NEW)) == OperatorStatus(account=US, since=OLD)
    assert rights.asked == []


async def test_of_two_of_one_second_one_acts() -> None:
    rights = Rights(US, THEM)
    ours, theirs = operator(rights, since=OLD), OtherOperators(THEM, rights.may_act)
    theirs.begin(OLD, ())
    assert [await ours.other(written(THEM), NOW), await theirs.other(written(US), NOW)] == [None, US]


async def test_an_operator_that_is_gone_stops_nobody_and_may_come_back() -> None:
    rights = Rights()
    younger = operator(rights, written(THEM))
    assert await younger.other(written(THEM), NOW) is None
    assert await younger.other(written(US, NEW), NOW) is None
    rights.accounts.add(THEM)
    assert await younger.other(written(THEM), later(1)) == THEM, "its name in a status is news"


async def test_another_process_of_the_release_knows_what_it_has_left() -> None:
    rights = Rights(THEM)
    restarted = operator(rights, written(THEM), written(THEM, namespace="other"))
    assert await restarted.other(written(), NOW) == THEM


async def test_a_lease_that_was_made_anew_neither_costs_the_place_nor_a_write() -> None:
    rights = Rights(THEM)
    ours = operator(rights, written(US, OLD), since="2026-09-01T00:00:00Z")
    assert await ours.other(written(THEM, NEW), NOW) is None
    assert ours.claim(written(US, OLD)) == OperatorStatus(account=US, since=OLD)
    assert ours.claim(written()) == OperatorStatus(account=US, since=OLD)
    # The other one has met both Leases, and the older one counts.
    theirs = OtherOperators(THEM, Rights(US).may_act)
    theirs.begin(NEW, [written(US, OLD), written(US, "2026-09-01T00:00:00Z")])
    assert await theirs.other(written(), NOW) == US


async def test_without_an_answer_the_other_counts_and_is_asked_about_later() -> None:
    rights = Rights()
    rights.is_forbidden = True
    younger = operator(rights)
    assert await younger.other(written(THEM), NOW) == THEM
    assert await younger.other(written(THEM), later(1)) == THEM
    assert len(rights.asked) == 1
    rights.is_forbidden = False
    assert await younger.other(written(THEM), NOW + RECHECK) is None


async def test_a_deleted_namespace_is_not_counted() -> None:
    younger = operator(Rights(THEM))
    await younger.other(written(THEM), NOW)
    assert younger.count(NOW + 2 * RECHECK) == 0


class Shared(World):
    """A world in which another operator has written the status."""

    def __init__(self, rights: Rights) -> None:
        self.rights = rights
        self.events: list[Event] = []
        super().__init__()

    def _begin(self) -> None:
        super()._begin()
        others = OtherOperators(US, self.rights.may_act, lambda _, events: self.events.extend(events))
        others.begin(NEW, ())
        self.reconciler = Reconciler(self.cluster, self.cache, lambda: self.now, others=others)


async def test_the_younger_writes_nothing_and_says_so_once_and_takes_over_later() -> None:
    world = Shared(Rights(THEM))
    world.ask()
    claim: Manifest = {"operator": {"account": THEM, "since": OLD}}
    world.cluster.set_status(RESOURCE, claim)
    before = len(world.cluster.writes)
    for _ in range(3):
        requeue = await world.reconcile()
        assert requeue is not None
        assert requeue.seconds == RECHECK.total_seconds()
    assert world.cluster.writes[before:] == []
    assert [(event.kind, event.reason) for event in world.events] == [("Warning", OTHER_OPERATOR)]
    assert THEM in world.events[0].note
    assert US in world.events[0].note

    world.rights.accounts.clear()
    world.now += RECHECK
    assert await world.settle()
    assert world.status().operator == OperatorStatus(account=US, since=NEW)
    assert await world.settle() == []
