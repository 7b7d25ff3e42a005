"""The KV cache size in the status: estimated, and reported by an engine."""

from collections.abc import Mapping
from dataclasses import replace

from inference_operator.api.reasons import ConditionType
from inference_operator.api.status import KvCacheStatus, Status
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.pod import pod_template_hash
from inference_operator.views.samples import EngineActivity, EngineSample, Samples
from tests.status.situations import CURRENT, message, observed, reported, view
from tests.testing.builders import ENGINES, deployment_status, inference_deployment, planned, ready_pod

ESTIMATED = 397_136
"""Tokens for Qwen3-8B on one H100."""
OLD, YOUNG = (view(ready_pod(), name=f"qwen-engine-{n}", age=n, template=CURRENT) for n in (2, 1))


def serving(tokens: Mapping[str, int | None], before: Status | None = None) -> Inputs:
    situation = observed(engines=deployment_status(2), routers=deployment_status(2), pods=[YOUNG, OLD], before=before)
    samples = {uid: EngineSample("qwen", 0, 0, (0.0,), kv_cache_tokens=n) for uid, n in tokens.items()}
    return replace(situation, samples=Samples({uid: EngineActivity(one, 0, at=0.0) for uid, one in samples.items()}))


def cache(status: Status) -> KvCacheStatus | None:
    return status.engine.kv_cache if status.engine else None


def test_status_has_no_kv_cache_before_an_engine_reports_one() -> None:
    assert cache(reported(serving({})).status) is None
    assert cache(reported(serving({OLD.uid: None})).status) is None


def test_status_has_the_estimated_and_the_reported_kv_cache() -> None:
    result = reported(serving({OLD.uid: 390_000, YOUNG.uid: 1}))
    assert CURRENT
    assert cache(result.status) == KvCacheStatus(
        estimated_tokens=ESTIMATED, reported_tokens=390_000, pod_template_hash=CURRENT
    )
    assert "reports" not in message(result, ConditionType.SIZED)


def test_the_reported_kv_cache_stays_for_the_same_template() -> None:
    first = reported(serving({OLD.uid: 390_000})).status
    for later in ({OLD.uid: 380_000}, {YOUNG.uid: 1}, {}):
        assert reported(serving(later, first)).status == first


def test_the_kv_cache_of_an_earlier_template_is_dropped() -> None:
    first = reported(serving({OLD.uid: 390_000})).status
    assert first.engine
    assert first.engine.kv_cache
    earlier = first.engine.kv_cache.model_copy(update={"pod_template_hash": "earlier"})
    before = first.model_copy(update={"engine": first.engine.model_copy(update={"kv_cache": earlier})})
    assert cache(reported(serving({}, before)).status) is None
    assert cache(reported(serving({OLD.uid: 380_000}, before)).status) == earlier.model_copy(
        update={"reported_tokens": 380_000, "pod_template_hash": CURRENT}
    )


def test_the_kv_cache_of_terminating_unready_or_outdated_pods_is_ignored() -> None:
    situation = serving({OLD.uid: 390_000})
    for pod in (replace(OLD, terminating=True), replace(OLD, ready=False), replace(OLD, template="earlier")):
        assert cache(reported(replace(situation, pods=[pod])).status) is None


def test_sized_names_a_kv_cache_that_differs_from_the_estimate() -> None:
    result = reported(serving({OLD.uid: 300_000}))
    sentence = "An engine reports a KV cache of 300,000 tokens, 24 % fewer than estimated."
    assert message(result, ConditionType.SIZED).count(f" {sentence}") == 1


def test_sized_names_the_reported_kv_cache_of_a_cpu_engine() -> None:
    raw = inference_deployment(hardware={"device": "CPU"})
    template = pod_template_hash(planned(raw).desired[ENGINES]["spec"]["template"]["metadata"])
    situation = observed(raw, live=raw, engines=deployment_status(1), routers=deployment_status(2))
    engine = EngineActivity(EngineSample("qwen", 0, 0, (0.0,), kv_cache_tokens=65_536), 0, at=0.0)
    one = replace(situation, pods=[replace(OLD, template=template)], samples=Samples({OLD.uid: engine}))
    text = message(reported(one), ConditionType.SIZED)
    assert text == (
        "On CPUs an engine needs 23Gi of memory, of which 4.5 GiB for the KV cache. It requests as much, unless"
        " `spec.engine.resources` names another amount. Free memory of nodes is not checked. An engine reports a KV"
        " cache of 65,536 tokens."
    )
