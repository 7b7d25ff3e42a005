"""A second kind of resource goes through the controller that InferenceDeployments go through."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import pytest

from inference_operator.api.crd import crd
from inference_operator.controller.cache import Cache
from inference_operator.controller.cached_object import key_of
from inference_operator.controller.cluster import ClusterError, NotFoundError, NotLeaderError
from inference_operator.controller.lister import Lister
from inference_operator.controller.reconciler import Reconciler
from inference_operator.controller.resource_kind import KINDS
from inference_operator.kube.events import EVENT, Events
from inference_operator.manifest import CONFIG_MAP, POD, RESOURCE_KINDS, Key, Manifest, Ref
from inference_operator.objects.names import KIND_LABEL, labels
from inference_operator.settings import Settings
from tests.controller.world import RESOURCE, World
from tests.testing.builders import H100, KEY
from tests.testing.memory_cluster import MemoryCluster, Request
from tests.testing.second_kind import BOTH, COMPONENT, ROSTER, ROSTER_API, ROSTERS, list_name

NAMED_ALIKE = Key(KEY.namespace, KEY.name, ROSTER)
"""A Roster of the same name as the InferenceDeployment."""
LIST = Ref(CONFIG_MAP, KEY.namespace, list_name(KEY.name))


class BothKinds(World):
    """The operator with both kinds, and a queue."""

    def _begin(self) -> None:
        super()._begin()
        self.cache = Cache(self.settings, kinds=BOTH)
        self.cache.nodes.put(H100)
        self.due: set[Key] = set()
        self.events = Events(self.cluster, "pod-1", lambda: self.now)
        self.reconciler = Reconciler(self.cluster, self.cache, lambda: self.now, self.events.record, self.due.add)
        self.lister = Lister(self.cluster, self.cache, self.settings, lambda key, _: self.due.add(key))

    def ask_for_list(self, **spec: object) -> None:
        """Apply a Roster, as a user does."""
        meta = {"name": KEY.name, "namespace": KEY.namespace}
        kind = {"apiVersion": ROSTER.api_version, "kind": ROSTER.name}
        self.cluster.apply_as("kubectl", {**kind, "metadata": meta, "spec": spec})

    async def list_all(self) -> set[Key]:
        await self.lister.list_all()
        self.cache.nodes.put(H100)
        return self.due

    async def rest(self) -> Sequence[Request]:
        """Reconcile what is due until nothing is; returns the writes."""
        before = len(self.cluster.writes)
        while due := self.deliver() | self.due:
            self.due.clear()
            for key in sorted(due):
                await self.reconciler.handle(key)
        return self.cluster.writes[before:]

    def listed(self) -> str:
        text: str = self.live(LIST)["data"]["list"]
        return text


@pytest.fixture
def both() -> BothKinds:
    return BothKinds()


async def serving(both: BothKinds) -> BothKinds:
    both.ask()
    both.ask_for_list()
    await both.rest()
    return both


async def test_a_resource_of_it_gets_its_child_its_status_and_nothing_more(both: BothKinds) -> None:
    both.ask_for_list()
    assert await both.rest() == [Request("apply", LIST), Request("status", NAMED_ALIKE.ref)]
    child = both.live(LIST)
    assert child["metadata"]["ownerReferences"][0] | {"uid": "any"} == {
        "apiVersion": ROSTER.api_version,
        "kind": "Roster",
        "name": KEY.name,
        "uid": "any",
        "controller": True,
        "blockOwnerDeletion": False,
    }
    assert child["metadata"]["labels"][KIND_LABEL] == "Roster"
    assert both.live(NAMED_ALIKE.ref)["status"]["reason"] == "Serving"


async def test_an_edit_of_it_is_written_once(both: BothKinds) -> None:
    await serving(both)
    both.ask_for_list(title="Ours")
    assert await both.rest() == [Request("apply", LIST), Request("status", NAMED_ALIKE.ref)]
    assert both.listed() == "Ours\nqwen"


async def test_an_edit_that_is_refused_changes_its_status_only(both: BothKinds) -> None:
    await serving(both)
    both.ask_for_list(title=7)
    assert await both.rest() == [Request("status", NAMED_ALIKE.ref)]
    assert both.live(NAMED_ALIKE.ref)["status"]["reason"] == "InvalidSpec"


async def test_a_child_that_somebody_edits_or_deletes_is_restored_with_one_write(both: BothKinds) -> None:
    await serving(both)

    def edit(live: Manifest) -> None:
        live["data"]["list"] = "mine"

    both.edit(LIST, edit)
    assert await both.rest() == [Request("apply", LIST)]
    both.cluster.remove(LIST)
    assert await both.rest() == [Request("apply", LIST)]
    assert both.listed() == "Models\nqwen"


async def test_what_it_follows_is_a_reason_to_decide_again(both: BothKinds) -> None:
    await serving(both)
    both.cluster.remove(RESOURCE)
    assert await both.rest() == [Request("apply", LIST), Request("status", NAMED_ALIKE.ref)]
    assert both.listed() == "Models"
    both.ask()
    await both.rest()
    assert both.listed() == "Models\nqwen"


async def test_a_status_that_the_operator_writes_makes_the_followers_due(both: BothKinds) -> None:
    await serving(both)
    both.pods_are_ready()
    both.deliver()
    await both.reconciler.handle(KEY)
    assert both.cluster.writes[-1] == Request("status", RESOURCE)
    assert both.due == {NAMED_ALIKE}


async def test_a_deleted_one_takes_its_child_with_it_and_leaves_the_other_kind_alone(both: BothKinds) -> None:
    await serving(both)
    before = set(both.children()) - {LIST}
    both.cluster.remove(NAMED_ALIKE.ref)
    both.cluster.collect_garbage()
    assert await both.rest() == []
    assert set(both.children()) == before
    assert both.cache.resource_keys() == [KEY]


async def test_an_operator_that_starts_again_writes_nothing(both: BothKinds) -> None:
    await serving(both)
    await both.restart()
    assert {KEY, NAMED_ALIKE} <= both.due
    assert await both.rest() == []


async def test_without_its_definition_the_operator_works_and_finds_it_later(
    both: BothKinds, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.ask()
    pages = both.cluster.pages

    async def without(kind: object, **others: object):  # type: ignore[no-untyped-def]  # noqa: ANN202 - `pages`
        if kind == ROSTER:
            raise NotFoundError("404")
        async for page in pages(kind, **others):  # type: ignore[arg-type]
            yield page

    with monkeypatch.context() as patch:
        patch.setattr(both.cluster, "pages", without)
        assert await both.lister.list_all()
        assert ROSTER in both.lister.missing_kinds
        assert ROSTER not in both.lister.watchable
        assert await both.rest()
    assert "the cluster has no rosters" in both.cache.unavailable_kinds[ROSTER]
    both.ask_for_list()
    both.cluster.events.clear()
    await both.lister.find_kinds()
    await both.rest()
    assert both.listed() == "Models\nqwen"


async def test_a_process_that_has_lost_the_lease_writes_nothing_of_it(both: BothKinds) -> None:
    both.ask_for_list()
    both.deliver()
    both.cluster.fail_next(NotLeaderError("PATCH: not sent"))
    with pytest.raises(NotLeaderError):
        await both.reconciler.handle(NAMED_ALIKE)
    assert both.cluster.peek(LIST) is None
    assert "status" not in both.live(NAMED_ALIKE.ref)
    assert await both.reconciler.handle(NAMED_ALIKE) is None, "the next process"
    assert both.listed() == "Models"


async def test_a_request_of_it_that_fails_is_tried_again(both: BothKinds) -> None:
    both.ask_for_list()
    both.deliver()
    both.cluster.fail_next(ClusterError("HTTP 503"))
    after = await both.reconciler.handle(NAMED_ALIKE)
    assert after is not None
    assert after.backoff
    both.due.add(NAMED_ALIKE)
    assert await both.rest() == [Request("apply", LIST), Request("status", NAMED_ALIKE.ref)]


async def test_a_bug_in_its_decision_is_in_its_status(both: BothKinds, monkeypatch: pytest.MonkeyPatch) -> None:
    await serving(both)

    def broken(_: object) -> NoReturn:
        raise ZeroDivisionError

    monkeypatch.setattr(both.cache, "kinds", {**both.cache.kinds, ROSTER: replace(ROSTERS, decide=broken)})
    with pytest.raises(ZeroDivisionError):
        await both.reconciler.handle(NAMED_ALIKE)
    assert both.live(NAMED_ALIKE.ref)["status"]["reason"] == "OperatorError"
    assert both.live(NAMED_ALIKE.ref)["status"]["models"] == 1, "the rest of the status stays"


async def test_its_events_are_about_it(both: BothKinds) -> None:
    both.ask()
    await both.rest()
    both.ask_for_list()
    await both.rest()
    while not both.events._queue.empty():  # noqa: SLF001 - `work` never ends
        await both.events.write(*both.events._queue.get_nowait())  # noqa: SLF001
    about = [live for ref, live in both.cluster.live().items() if ref.kind == EVENT]
    (event,) = [event for event in about if event["regarding"]["kind"] == "Roster"]
    assert (event["reason"], event["note"]) == ("Listed", "1 models")
    assert event["regarding"]["name"] == KEY.name


def test_a_pod_of_it_concerns_it_by_its_labels() -> None:
    own = {**labels(KEY.name, COMPONENT), KIND_LABEL: "Roster"}
    meta = {"name": "qwen-1", "namespace": KEY.namespace, "labels": own}
    pod = {"apiVersion": POD.api_version, "kind": POD.name, "metadata": meta}
    assert key_of(pod) == NAMED_ALIKE
    assert str(NAMED_ALIKE) == "Roster default/qwen"


async def test_metrics_count_inference_deployments_only(both: BothKinds) -> None:
    await serving(both)
    assert sum(both.cache.states().values()) == 1
    assert [key for key, *_ in both.cache.figures()] == [KEY]
    assert both.cache.unsettled() == [KEY], "a change of the nodes helps no Roster"


def test_its_definition_is_generated_as_that_of_an_inference_deployment() -> None:
    made = crd(ROSTER_API)
    (version,) = made["spec"]["versions"]
    assert made["metadata"]["name"] == "rosters.inference-operator.dev"
    assert made["spec"]["names"]["listKind"] == "RosterList"
    assert version["subresources"] == {"status": {}}
    assert list(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]) == ["title"]
    assert version["additionalPrinterColumns"][0]["jsonPath"] == ".status.models"


def test_the_kinds_of_the_policies_are_those_of_the_controller() -> None:
    assert tuple(kind.api.kind for kind in KINDS) == RESOURCE_KINDS


async def test_a_lister_without_the_kind_asks_for_none() -> None:
    cluster = MemoryCluster()
    lister = Lister(cluster, Cache(Settings()), Settings(), lambda _key, _priority: None)
    assert await lister.list_all()
    assert ROSTER not in {request.ref.kind for request in cluster.reads}
