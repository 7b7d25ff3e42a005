"""The sum of the parts of an outcome: in any order the same, and an error where two parts write one thing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from random import Random

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.jobs.attempts import JobWait
from inference_operator.manifest import CONFIG_MAP, JOB, Manifest, Ref
from inference_operator.objects.child import child
from inference_operator.objects.names import COMPONENT_LABEL, ENGINE, PROGRAM, ROUTER
from inference_operator.objects.pod_patch import PodDeletion, PodPatch
from inference_operator.pipeline.adapter_lists import Adapter
from inference_operator.pipeline.decide import decided_parts, outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Paused
from inference_operator.pipeline.part import Feature, Part
from inference_operator.pipeline.summed import DoubledWriteError, summed
from inference_operator.views.pod import pod_view
from tests.pipeline.test_decide import GOLDEN
from tests.pipeline.test_moves import as_live
from tests.status.test_states import STATES
from tests.testing.builders import NOW, inference_deployment, inputs, model_known, planned, pod, ready_pod
from tests.testing.for_each import for_each

EVERYTHING = inference_deployment(
    model={"source": "hf://Qwen/Qwen3-8B", "adapters": [{"name": "a", "source": "hf://org/a"}]},
    parallelism={"tensor": 1, "nodes": 2},
    scheduling={"schedulerName": "gang"},
    cache={"size": "100Gi", "accessMode": "ReadWriteMany"},
    router={"keys": {"secretRef": {"name": "users"}}},
    autoscaling={"minReplicas": 1, "maxReplicas": 3},
    engine={"adapterSlots": 1, "maxAdapterRank": 16},
)

SITUATIONS: dict[str, Callable[[], Inputs]] = {
    **{name: lambda state=state: state[0] for name, state in STATES.items()},  # type: ignore[misc]
    "all features": lambda: inputs(EVERYTHING, children=[model_known(EVERYTHING)]),
    "all features, without Jobs": lambda: replace(inputs(EVERYTHING, children=[model_known(EVERYTHING)]), jobs=False),
    **{f"golden {name}": lambda raw=raw: inputs(raw) for name, raw in GOLDEN.items()},  # type: ignore[misc]
}
SHUFFLES = 3
OWNER = inputs(inference_deployment()).owner


def config_map(name: str = "a", component: str = ROUTER, **data: str) -> dict[Ref, Manifest]:
    made = child(CONFIG_MAP, name, owner=OWNER, component=component, content={"data": data})
    return {Ref.of(made): made}


@for_each(SITUATIONS)
def test_the_order_of_the_parts_changes_no_outcome(name: str) -> None:
    given = SITUATIONS[name]()
    expected, decided = outcome(given), decided_parts(given)
    for seed in range(SHUFFLES):
        shuffled = Random(seed).sample(decided.parts, len(decided.parts))  # noqa: S311 - a test
        found = summed(decided.verdict, shuffled)
        assert found == expected
        assert list(found.desired) == list(expected.desired), "nor the order of writes"


def test_the_states_have_a_part_of_every_feature_that_says_something() -> None:
    parts = [part for situation in SITUATIONS.values() for part in decided_parts(situation()).parts]
    said = {part.feature for part in parts if part != Part(feature=part.feature)}
    assert set(Feature) - said == set()


def test_what_two_parts_contribute_is_joined() -> None:
    first, second = config_map("b", x="1"), config_map("a", x="2")
    late, early = NOW + timedelta(minutes=2), NOW + timedelta(minutes=1)
    waits = (JobWait(Reason.DOWNLOADING_MODEL, "first"), JobWait(Reason.VERIFYING_MODEL, "second"))
    download = Part(feature=Feature.DOWNLOAD, desired=first, due=late, notice="One.", model_wait=waits[0])
    adapters = Part(feature=Feature.ADAPTERS, desired=second, due=early, notice="Two.", model_wait=waits[1])
    found = summed(Paused(), [adapters, download])
    assert (found.due, found.notice, found.model_wait) == (early, "One. Two.", waits[0])
    assert list(found.desired.items()) == [*first.items(), *second.items()]


def test_a_live_object_stays_unless_a_part_writes_it() -> None:
    live, written, other = config_map(x="live"), config_map(x="new"), config_map("other")
    found = summed(Paused(), [Part(feature=Feature.LIVE, kept={**live, **other}), part(Feature.ROUTERS, written)])
    assert found.desired == {**other, **written}


def part(feature: Feature, desired: dict[Ref, Manifest]) -> Part:
    return Part(feature=feature, desired=desired)


@pytest.mark.parametrize("content", ["1", "2"])
def test_two_parts_that_write_one_object_are_an_error_though_they_write_the_same(content: str) -> None:
    with pytest.raises(DoubledWriteError, match="engines and routers"):
        summed(Paused(), [part(Feature.ROUTERS, config_map(x="1")), part(Feature.ENGINES, config_map(x=content))])


def test_jobs_share_their_program_whose_name_has_its_hash() -> None:
    program = config_map("p", PROGRAM, x="1")
    both = [part(Feature.DOWNLOAD, program), part(Feature.INSPECTION, program)]
    assert summed(Paused(), both).desired == program
    with pytest.raises(DoubledWriteError):
        summed(Paused(), [*both, part(Feature.ADAPTERS, config_map("p", PROGRAM, x="2"))])


def test_a_program_is_written_before_each_job_that_installs_it() -> None:
    program, jobs = (
        config_map("p", PROGRAM, x="1"),
        [child(JOB, name, owner=OWNER, component=PROGRAM, content={}) for name in "ab"],
    )
    first, second = ({**program, Ref.of(job): job} for job in jobs)
    for both in permutations([part(Feature.DOWNLOAD, first), part(Feature.INSPECTION, second)]):
        assert [ref.name for ref in summed(Paused(), both).desired] == ["p", "a", "b"]


def test_an_edited_label_of_the_routers_service_stops_no_decision_while_engines_wait_for_their_model() -> None:
    children = [as_live(one, number) for number, one in enumerate(planned(inference_deployment()).desired.values())]
    (service,) = (one for one in children if (one["kind"], one["metadata"]["name"]) == ("Service", "qwen"))
    service["metadata"]["labels"][COMPONENT_LABEL] = ENGINE
    result = outcome(inputs(inference_deployment(cache={"size": "200Gi"}), children=children))
    assert result.desired[Ref.of(service)]["metadata"]["labels"][COMPONENT_LABEL] == ROUTER


def test_two_parts_of_one_feature_are_an_error() -> None:
    with pytest.raises(DoubledWriteError, match="routers"):
        summed(Paused(), [Part(feature=Feature.ROUTERS), Part(feature=Feature.ROUTERS)])


def test_two_authors_of_one_value_are_an_error() -> None:
    adapters = (Adapter("a"),)
    both = [Part(feature=Feature.ADAPTERS, adapters=adapters), Part(feature=Feature.ENGINES, adapters=adapters)]
    with pytest.raises(DoubledWriteError, match="adapters and engines"):
        summed(Paused(), both)


A = pod_view(pod(name="a", status=ready_pod()), component=ENGINE)
B = pod_view(pod(name="b", status=ready_pod()), component=ENGINE)
OUT = PodPatch(pod=A, labels={"traffic": "false"}, why="it made no progress")
LIST = PodPatch(pod=A, annotations={"list": "1"}, why="the list has changed")
FIRST = PodPatch(pod=A, deletion_cost=-1, why="its node is leaving")
GONE = PodPatch(pod=A, delete=PodDeletion("it has stalled", Reason.ENGINE_STALLED, grace_seconds=1))


def with_patches(*patches: PodPatch) -> Sequence[PodPatch]:
    """The patches of an outcome of which each of these has a part of its own."""
    features = (Feature.REMOVALS, Feature.TRAFFIC, Feature.ADAPTERS, Feature.REMOVAL_ORDER)
    parts = [Part(feature=feature, pods=(patch,)) for feature, patch in zip(features, patches, strict=False)]
    return summed(Paused(), parts).pods


def test_a_pod_has_one_patch_of_all_parts_that_change_it() -> None:
    other = replace(OUT, pod=B)
    assert with_patches(OUT, LIST, FIRST, other) == (
        PodPatch(
            pod=A,
            labels=OUT.labels,
            annotations=LIST.annotations,
            deletion_cost=-1,
            why="it made no progress; the list has changed; its node is leaving",
        ),
        other,
    )


def test_a_pod_that_is_deleted_gets_no_label_and_no_annotation_but_its_place_in_the_order() -> None:
    (patch,) = with_patches(GONE, OUT, LIST, FIRST)
    assert (patch.delete, patch.labels, patch.annotations, patch.deletion_cost) == (GONE.delete, {}, {}, -1)


@for_each([OUT, LIST, FIRST, GONE])
def test_two_parts_that_change_one_field_of_a_pod_are_an_error(patch: PodPatch) -> None:
    with pytest.raises(DoubledWriteError, match="of pod a"):
        with_patches(patch, patch)
