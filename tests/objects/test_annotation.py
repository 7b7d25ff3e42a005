"""The records in annotations: what an earlier operator wrote is read and not rewritten, and nonsense is no value.

`FORMER` has texts as the operator wrote them before its records shared a class. Never change one: where a form changes,
add another text.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from inference_operator.api.spec import RolloutStrategy
from inference_operator.fleet.rollout_slots import TURN_ANNOTATION, Turn
from inference_operator.manifest import Manifest
from inference_operator.objects.annotation import MAX_BYTES, Annotation
from inference_operator.objects.pinned import Pinned
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION, PinnedPlan
from inference_operator.router.pinned_router import ROUTER_PIN, RouterContent
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION
from inference_operator.workload.eviction.drain import MOVE_ANNOTATION, MoveRecord
from inference_operator.workload.eviction.half_placed import GIVEN_BACK_ANNOTATION, GivenBack
from inference_operator.workload.eviction.hardware_errors import MOVED_ANNOTATION, recorded_moves
from inference_operator.workload.eviction.rollout import ROLLOUT_ANNOTATION, Rollout, RolloutReason
from inference_operator.workload.pinned_template import ENGINE_PIN, EngineContent
from tests.testing.builders import inference_deployment, planned
from tests.testing.for_each import for_each

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
SECOND = MOMENT.replace(microsecond=0)
BERLIN = SECOND.astimezone(timezone(timedelta(hours=2)))
TEMPLATE: Manifest = {"metadata": {"annotations": {TEMPLATE_HASH_ANNOTATION: "abc"}}, "spec": {"containers": []}}
TEMPLATE_TEXT = '{"metadata":{"annotations":{"inference-operator.dev/template":"abc"}},"spec":{"containers":[]}}'
CPU_PLAN = (
    '{"asked":"7b35308dd9956dee","engine":"VLLM","hash":"3c7238cc6379046d","image":'
    '"docker.io/vllm/vllm-openai-cpu:v0.32.0-x86_64","plan":{"assumptions":[],"avoided_products":[],'
    '"context_reduced":false,"cpu":"1","cpu_offload_gib":0.0,"decision":0,"device":"CPU","ephemeral_storage":'
    '"18Gi","gpu":"","gpu_memory_utilization":null,"gpus_per_replica":0,"kv_cache_bytes":4850712576,'
    '"max_model_len":32768,"max_num_batched_tokens":null,"max_num_seqs":null,"memory":"23Gi","node_selector":{},'
    '"per_gpu":null,"pipeline_parallel_size":1,"reasoning_parser":"qwen3","resource":"nvidia.com/gpu",'
    '"shared_memory":"2Gi","tensor_parallel_size":1,"tool_call_parser":"hermes","unchecked":"","uncounted":[],'
    '"weight_bytes":16381444096},"rules":3}'
)
GPU_PLAN = (
    '{"asked":"cd9819c0773bb8a4","engine":"VLLM","hash":"bd38e0bd780eda09",'
    '"image":"docker.io/vllm/vllm-openai:v0.32.0","plan":{"assumptions":[],"avoided_products":[],'
    '"context_reduced":false,"cpu":"7","cpu_offload_gib":0.0,"decision":0,"device":"GPU",'
    '"ephemeral_storage":"18Gi","gpu":"H100-80GB","gpu_memory_utilization":0.92,"gpus_per_replica":4,'
    '"kv_cache_bytes":null,"labels_of_kind":true,"left_to_engine":["maxModelLen","maxNumSeqs",'
    '"maxNumBatchedTokens"],"max_model_len":40960,"max_num_batched_tokens":8192,"max_num_seqs":1024,'
    '"memory":"28Gi","node_selector":{"nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3"},'
    '"per_gpu":{"activation_gib":0.95,"cuda_graphs_gib":0.78,"headroom_gib":63.8,"kv_cache_gib":65.21,'
    '"kv_cache_tokens":1899312,"kv_token_bytes":36864,"longest_requests":46.4,"memory_gib":79.18,'
    '"non_torch_gib":2.08,"offered_gib":72.85,"origins":{"CUDA graphs":"counted in the budget; vLLM 0.32.0,'
    ' fitted to 3 start-ups","KV cache":"what is left","activation":"vLLM 0.32.0","non-torch":"vLLM 0.32.0",'
    '"weights":"counted from config.json"},"typical_requests":927.4,"weights_gib":3.82},'
    '"pipeline_parallel_size":2,"reasoning_parser":"qwen3","resource":"nvidia.com/gpu","shared_memory":"8Gi",'
    '"step":{"attention":3.727e-10,"cached_token":1.375e-08,"decodes":true,"dense":0.001527,"estimated":false,'
    '"exchange":1.203e-06,"expert_share":0.0,"experts":0.0,"fixed":0.001629,"sequence":6.259e-06,"stages":2,'
    '"token":1.232e-05,"windows":{}},"tensor_parallel_size":2,"tool_call_parser":"hermes","unchecked":"",'
    '"uncounted":[],"weight_bytes":16381444096},"rules":3}'
)
ROUTER_TEXT = (
    '{"cold_start_seconds":5,"files":{"haproxy.cfg":"global"},"hash":"5b15c20311e1196f","inputsHash":"0123",'
    f'"ownHash":"45","slots":32,"template":{TEMPLATE_TEXT}}}'
)


def without_advice(raw: Manifest) -> PinnedPlan:
    """The plan as the operator wrote it before plans had advice."""
    pinned = planned(raw).plan
    return replace(pinned, plan=replace(pinned.plan, advice=()))


RECORDS: Mapping[str, Annotation[Any]] = {
    "move": MOVE_ANNOTATION,
    "turn": TURN_ANNOTATION,
    "given-back": GIVEN_BACK_ANNOTATION,
    "rollout": ROLLOUT_ANNOTATION,
    "moved-pods": MOVED_ANNOTATION,
    "plan": PLAN_ANNOTATION,
    "engine-template": ENGINE_PIN,
    "router-template": ROUTER_PIN,
}

FORMER: list[tuple[Annotation[Any], object, str]] = [
    (MOVE_ANNOTATION, MoveRecord(MOMENT), '{"gave_up":false,"since":"2026-01-02T03:04:05.678901+00:00"}'),
    (MOVE_ANNOTATION, MoveRecord(SECOND, gave_up=True), '{"gave_up":true,"since":"2026-01-02T03:04:05+00:00"}'),
    (MOVE_ANNOTATION, MoveRecord(BERLIN), '{"gave_up":false,"since":"2026-01-02T03:04:05+00:00"}'),
    (
        TURN_ANNOTATION,
        Turn("abc", SECOND, healthy=True),
        '{"healthy":true,"since":"2026-01-02T03:04:05Z","template":"abc"}',
    ),
    (
        TURN_ANNOTATION,
        Turn("abc", BERLIN, healthy=False),
        '{"healthy":false,"since":"2026-01-02T03:04:05Z","template":"abc"}',
    ),
    (GIVEN_BACK_ANNOTATION, GivenBack(SECOND), '{"at":"2026-01-02T03:04:05+00:00","older":"","times":1}'),
    (
        GIVEN_BACK_ANNOTATION,
        GivenBack(MOMENT, 3, "other-engine-0"),
        '{"at":"2026-01-02T03:04:05.678901+00:00","older":"other-engine-0","times":3}',
    ),
    (GIVEN_BACK_ANNOTATION, GivenBack(BERLIN), '{"at":"2026-01-02T05:04:05+02:00","older":"","times":1}'),
    (
        ROLLOUT_ANNOTATION,
        Rollout("abc", RolloutStrategy.SURGE, RolloutReason.NO_NODE_CAME),
        '{"strategy":"Surge","template":"abc","why":"NoNodeCame"}',
    ),
    (MOVED_ANNOTATION, {"gpu-2": "a", "gpu-1": 'ü"b'}, '{"gpu-1":"\\u00fc\\"b","gpu-2":"a"}'),
    (
        ENGINE_PIN,
        Pinned("0123", EngineContent(TEMPLATE)),
        f'{{"hash":"ba57786f5a693785","inputsHash":"0123","template":{TEMPLATE_TEXT}}}',
    ),
    (
        ENGINE_PIN,
        Pinned("0123", EngineContent(TEMPLATE), own_hash="9"),
        f'{{"hash":"ba57786f5a693785","inputsHash":"0123","ownHash":"9","template":{TEMPLATE_TEXT}}}',
    ),
    (
        ROUTER_PIN,
        Pinned("0123", RouterContent(32, TEMPLATE, {"haproxy.cfg": "global"}, 5), own_hash="45"),
        ROUTER_TEXT,
    ),
    (
        PLAN_ANNOTATION,
        without_advice(inference_deployment(hardware={"device": "CPU"})),
        CPU_PLAN,
    ),
    (
        PLAN_ANNOTATION,
        without_advice(inference_deployment(parallelism={"tensor": 2, "pipeline": 2})),
        GPU_PLAN,
    ),
]

NONSENSE: list[object] = [
    None,
    5,
    {},
    "",
    " ",
    "null",
    "true",
    "7",
    "NaN",
    '"text"',
    "[]",
    "[1,",
    "[[[",
    "[" * 100_000,
    '{"a":' * 100_000,
    "1" * 5_000,
    '"\\ud800"',
    "\udc80",
    "{" + "x" * MAX_BYTES,
    '{"since":"2026-01-02T03:04:05","template":"abc","healthy":true,"at":"2026-01-02T03:04:05"}',
    '{"since":"2026-01-02","template":"abc","healthy":true,"at":"2026-01-02"}',
    '{"since":"9999-12-31T23:59:59Z","template":"abc","healthy":true,"at":"9999-12-31T23:59:59Z"}',
    '{"since":"0001-01-01T00:00:00+14:00","template":"abc","healthy":true,"at":"0001-01-01T00:00:00+14:00"}',
    '{"since":1e999,"template":"abc","healthy":true,"at":1e999}',
    '{"since":null,"template":null,"healthy":null,"at":null,"times":null,"strategy":null,"why":null,"node":null}',
    '{"at":"2026-01-02T03:04:05Z","times":0,"node":5}',
    '{"at":"2026-01-02T03:04:05Z","times":-1e99,"node":5}',
    f'{{"at":"2026-01-02T03:04:05Z","times":{"9" * 4000},"node":5}}',
    '{"template":"abc","strategy":"Explode","why":"NoNodeCame","node":5}',
    '{"template":"abc","strategy":"Surge","why":"BecauseISay"}' + " " * MAX_BYTES,
    '{"template":{},"strategy":"Surge","why":"NoNodeCame"}',
    '{"asked":"a","image":"b","plan":{},"hash":"c"}',
    '{"asked":"a","image":"b","plan":[],"engine":[]}',
    f'{{"asked":"a","image":"b","plan":{{"cpu":{"9" * 4000}}},"hash":"c"}}',
    '{"hash":"c","inputsHash":"d","template":[],"slots":1e999,"files":7}',
    f'{{"hash":"c","inputsHash":"d","template":{{"spec":{"[" * 190}{"]" * 190}}},"slots":1,"files":{{}}}}',
]


def live(annotation: Annotation[Any], text: object) -> Manifest:
    return {"metadata": {"annotations": {annotation.key: text}}}


@for_each(FORMER, named=lambda former: former[0].key)
def test_what_the_commit_before_wrote_is_read_and_not_rewritten(
    former: tuple[Annotation[Any], object, str],
) -> None:
    annotation, value, text = former
    assert annotation.write(value) == text
    assert annotation.read(live(annotation, text)) == value
    assert annotation.entry(annotation.read(live(annotation, text))) == {annotation.key: text}


def test_the_time_of_a_turn_has_no_fraction_of_a_second() -> None:
    assert TURN_ANNOTATION.write(Turn("abc", MOMENT, healthy=True)) == TURN_ANNOTATION.write(
        Turn("abc", SECOND, healthy=True)
    )


@for_each(f"2026-01-02T0{hour}:04:05{zone}" for hour, zone in ((3, "Z"), (3, "+00:00"), (3, ".000000Z"), (5, "+02:00")))
def test_each_form_of_a_time_is_read_in_every_record(time: str) -> None:
    move, back = MOVE_ANNOTATION, GIVEN_BACK_ANNOTATION
    assert move.read(live(move, f'{{"gave_up":false,"since":"{time}"}}')) == MoveRecord(SECOND)
    assert back.read(live(back, f'{{"at":"{time}"}}')) == GivenBack(SECOND)
    turn = TURN_ANNOTATION.read(live(TURN_ANNOTATION, f'{{"healthy":true,"since":"{time}","template":"abc"}}'))
    assert turn == Turn("abc", SECOND, healthy=True)


@for_each(NONSENSE, named=lambda text: ascii(text)[:80])
def test_nonsense_in_an_annotation_is_no_value(text: object) -> None:
    read = {name: annotation.read(live(annotation, text)) for name, annotation in RECORDS.items()}
    assert {name for name, value in read.items() if value} == set()
    assert not recorded_moves(live(MOVED_ANNOTATION, text)).uids
    assert isinstance(PLAN_ANNOTATION.engine(live(PLAN_ANNOTATION, text)), str)


@pytest.mark.parametrize("manifest", [None, {}, {"metadata": None}, {"metadata": []}, {"metadata": {"annotations": 5}}])
def test_an_object_without_annotations_has_no_record(manifest: Manifest | None) -> None:
    assert not any(annotation.read(manifest) for annotation in RECORDS.values())


def test_each_record_has_a_key_of_its_own() -> None:
    assert {annotation.key for annotation in RECORDS.values()} == {f"inference-operator.dev/{name}" for name in RECORDS}


def test_none_and_a_value_that_is_too_long_have_no_annotation() -> None:
    assert MOVED_ANNOTATION.entry(None) == {}
    assert MOVED_ANNOTATION.entry({"node": "x" * MAX_BYTES}) == {}
