"""Memory of adapters, draft models and offloading in a plan, and the report of memory that is not counted."""

import pytest

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.jobs.result import Cause
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sizing.plan import PerGpu
from inference_operator.status.report import report
from tests.testing.builders import ENGINES, inference_deployment, inputs
from tests.testing.inspected import failing

DRAFT: Manifest = {"speculative": {"method": "DraftModel", "model": "hf://Qwen/Qwen3-0.6B", "tokens": 4}}
UNKNOWN: Manifest = {"speculative": {"method": "EAGLE3", "model": "hf://org/head", "tokens": 4}}


def asking(*args: str, device: str = "GPU", **engine: object) -> Manifest:
    return inference_deployment(engine={"args": list(args), **engine}, hardware={"device": device})


def pinned(raw: Manifest) -> PinnedPlan:
    found = outcome(inputs(raw))
    assert isinstance(found, Planned), found
    return found.plan


def arithmetic(raw: Manifest) -> PerGpu:
    found = pinned(raw).plan.per_gpu
    assert found is not None
    return found


def sized(raw: Manifest) -> tuple[str, str, str]:
    seen = inputs(raw)
    found = report(seen, outcome(seen), []).status.condition(ConditionType.SIZED)
    assert found is not None
    return found.status, found.reason, found.message


def test_a_draft_model_and_adapters_reduce_the_kv_cache() -> None:
    plain = arithmetic(asking())
    adapters = asking("--enable-lora", "--max-loras=4", "--max-lora-rank=64")
    for raw in (asking(**DRAFT), adapters):
        found = arithmetic(raw)
        assert found.weights_gib > plain.weights_gib + 1
        assert found.kv_cache_gib < plain.kv_cache_gib - 1
    assert "GiB for speculative decoding" in arithmetic(asking(**DRAFT)).origins["weights"]
    assert sized(asking(**DRAFT))[:2] == ("True", "Fits")


def test_a_draft_model_is_downloaded_to_the_nodes_disk_for_any_source_of_the_main_model() -> None:
    for device in ("GPU", "CPU"):
        plain, drafted = (pinned(asking(device=device, **engine)).plan for engine in ({}, DRAFT))
        assert (plain.ephemeral_storage, drafted.ephemeral_storage) == ("18Gi", "19Gi")
    mounted = inference_deployment(source="oci://ghcr.io/org/qwen:1", engine=DRAFT, hardware={"device": "CPU"})
    assert pinned(mounted).plan.ephemeral_storage == "4Gi"


def test_an_unknown_draft_model_is_reported_as_not_counted_in_message_and_status() -> None:
    state, reason, message = sized(asking(**UNKNOWN))
    assert (state, reason) == ("Unknown", "PartlyEstimated")
    assert message.startswith(
        "Not counted: the draft model `org/head`, which is not in the catalogue. Its memory reduces the KV cache."
        " Tensor parallel 1 on H100-80GB:"
    )
    on_cpus = sized(asking(device="CPU", **UNKNOWN))
    assert on_cpus[:2] == ("Unknown", "PartlyEstimated")
    assert "Not counted: the draft model `org/head`" in on_cpus[2]
    assert pinned(asking(**UNKNOWN)).plan.unaccounted == ("the draft model `org/head`, which is not in the catalogue",)


def test_a_draft_model_with_another_revision_is_not_counted_as_the_known_model() -> None:
    assert pinned(asking(speculative={**DRAFT["speculative"], "revision": "v2"})).plan.unaccounted
    assert not pinned(asking(**DRAFT)).plan.unaccounted


@pytest.mark.parametrize(
    "engine",
    [
        DRAFT,
        UNKNOWN,
        {"speculative": {"method": "Ngram"}},
        {"args": ["--enable-lora"]},
        {"args": ["--enable-lora", "--max-loras=2"]},
        {"kvOffload": {"memory": "8Gi"}},
    ],
)
def test_only_what_takes_memory_is_pinned_with_the_plan(engine: Manifest) -> None:
    seeded = {**engine, "args": [*engine.get("args", ()), "--seed=1"]}
    found, plain = (pinned(inference_deployment(engine=one)).spec_hash for one in (engine, {}))
    assert found != plain
    assert pinned(inference_deployment(engine=seeded)).spec_hash == found
    assert pinned(asking("--max-loras=4", "--seed=1")).spec_hash == plain


def test_a_kv_cache_in_host_memory_is_part_of_the_memory_request_and_of_dev_shm() -> None:
    def requests(**engine: object) -> tuple[str, str]:
        found = outcome(inputs(inference_deployment(engine=engine)))
        assert isinstance(found, Planned)
        pod = found.desired[ENGINES]["spec"]["template"]["spec"]
        (shared,) = (one for one in pod["volumes"] if one.get("emptyDir", {}).get("medium") == "Memory")
        return pod["containers"][0]["resources"]["requests"]["memory"], shared["emptyDir"]["sizeLimit"]

    assert requests() == ("16Gi", "2Gi")
    assert requests(kvOffload={"memory": "64Gi"}) == ("80Gi", "66Gi")


def test_an_unchecked_plan_requests_host_memory_for_offloaded_weights_and_kv_cache() -> None:
    engine = {"kvOffload": {"memory": "64Gi"}, "cpuOffloadGiB": 8}
    found = outcome(failing(Cause.GATED, parallelism={"tensor": 2}, engine=engine))
    assert isinstance(found, Planned)
    assert (found.plan.plan.memory, found.plan.plan.shared_memory) == ("96Gi", "72Gi")


def test_an_absurdly_large_kv_cache_is_refused_before_a_pod_exists() -> None:
    found = outcome(inputs(asking("--kv-cache-memory-bytes=2048T")))
    assert isinstance(found, Refused)
    assert (found.refusal.reason, found.refusal.field) == (Reason.INVALID_SPEC, "spec.engine.args[0]")


@pytest.mark.parametrize(
    ("tag", "verdict"),
    [
        ("v0.32.0", ("True", "Fits")),
        ("v0.32.1-cu129", ("True", "Fits")),
        ("nightly", ("True", "Fits")),
        ("v0.27.0", ("Unknown", "PartlyEstimated")),
        ("v0.33.0", ("Unknown", "PartlyEstimated")),
    ],
)
def test_an_image_of_another_version_is_planned_by_the_tables_there_are_and_says_so(
    tag: str, verdict: tuple[str, str]
) -> None:
    raw = inference_deployment(engine={"image": f"vllm/vllm-openai:{tag}"})
    state, reason, message = sized(raw)
    said = f"The image has vLLM {tag.removeprefix('v')}: which models, data types and GPUs go together is taken from"
    assert ((state, reason), said in message) == (verdict, verdict[0] == "Unknown")
    assert message.startswith("Tensor parallel 1 on H100-80GB:")
    assert arithmetic(raw).weights_gib == arithmetic(asking()).weights_gib
