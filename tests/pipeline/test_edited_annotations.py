"""Whatever somebody writes into annotations of the operator's objects, each resource is decided and reported."""

from collections.abc import Iterator
from datetime import timedelta

from inference_operator.api.status import Status
from inference_operator.jobs.attempts import ATTEMPT_ANNOTATION, job_attempt
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.report import report
from inference_operator.views.pod import DELETION_COST_ANNOTATION, pod_view
from inference_operator.views.raw import annotations
from inference_operator.views.workload import ENGINES_ANNOTATION, PROGRESS_DEADLINE_ANNOTATION, TEMPORARY_ANNOTATION
from tests.objects.test_annotation import NONSENSE, RECORDS
from tests.pipeline.test_moves import living
from tests.testing.builders import NOW, inference_deployment, inputs, pod, ready_pod
from tests.testing.builders import planned as decided
from tests.testing.for_each import for_each

PREFIX = "inference-operator.dev/"
NUMBERS = ["²", "٣", "-1", "0", "1/0", "1/1", "9/1", "2/1", "1e9", "999999999", "999999999/999999999", "9" * 400, "1.5"]
TEXTS = [text for text in NONSENSE if isinstance(text, str)] + NUMBERS
ALONE = inference_deployment()
GROUPS = inference_deployment(parallelism={"tensor": 8, "nodes": 2})
KEYS = (
    *(record.key for record in RECORDS.values()),
    TEMPORARY_ANNOTATION,
    ENGINES_ANNOTATION,
    PROGRESS_DEADLINE_ANNOTATION,
    PREFIX + "slots",
    PREFIX + "security-revision",
    PREFIX + "template",
    PREFIX + "engine-key",
    PREFIX + "desired-hash",
)
TURN = '{"healthy":true,"since":"8999-01-01T00:00:00Z","template":"%s"}'
LIVE = {name: living(decided(raw).desired) for name, raw in (("alone", ALONE), ("groups", GROUPS))}


def _edited(manifest: Manifest, notes: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {**annotations(manifest), **notes}}}


def _observed(children: list[Manifest], raw: Manifest = ALONE) -> Inputs:
    engine = pod_view(pod(name="a", status=ready_pod()), component="engine")
    return inputs(raw, children=children, pods=[engine])


def _reported(observed: Inputs) -> Status:
    return report(observed, outcome(observed), ()).status


def _cases() -> Iterator[tuple[str, str]]:
    for text in TEXTS:
        yield "", text
    for key in KEYS:
        for text in ("²", "999999999"):
            yield key, text


@for_each(_cases(), named=ascii)
def test_a_resource_with_edited_annotations_is_decided(case: tuple[str, str]) -> None:
    key, text = case
    notes = {key: text} if key else dict.fromkeys(KEYS, text)
    for raw, children in ((ALONE, LIVE["alone"]), (GROUPS, LIVE["groups"])):
        assert _reported(_observed([_edited(child, notes) for child in children], raw)).conditions


@for_each([(0, 0), (1, 2**31 - 1), (2**31 - 1, 2**31 - 1), (2**31 - 1, 600)])
def test_a_turn_of_a_workload_with_edited_numbers_is_decided(numbers: tuple[int, int]) -> None:
    replicas, seconds = numbers
    children = []
    for child in LIVE["alone"]:
        template = child.get("spec", {}).get("template")
        if template and "progressDeadlineSeconds" in child["spec"]:
            turn = TURN % template["metadata"]["annotations"][PREFIX + "template"]
            spec = {**child["spec"], "replicas": replicas, "progressDeadlineSeconds": seconds}
            children.append(_edited({**child, "spec": spec}, {PREFIX + "turn": turn}))
        else:
            children.append(child)
    assert _reported(_observed(children)).conditions


@for_each(TEXTS, named=ascii)
def test_an_attempt_without_a_valid_number_is_the_first(text: str) -> None:
    job = {"metadata": {"name": "qwen-download", "annotations": {ATTEMPT_ANNOTATION: text}}}
    assert job_attempt(job, ()).number == (int(text) if text in {"0", "7"} else 1)


@for_each(TEXTS, named=ascii)
def test_a_pod_without_a_valid_deletion_cost_has_none(text: str) -> None:
    view = pod_view(_edited(pod(name="a"), {DELETION_COST_ANNOTATION: text}), component="engine")
    assert view.deletion_cost == (int(text) if text in {"0", "7", "-1", "999999999"} else 0)


def test_now_is_before_the_latest_time_of_an_annotation() -> None:
    assert NOW + timedelta(days=365 * 5_000) < NOW.replace(year=8999)
