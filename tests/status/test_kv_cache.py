"""The KV cache that an engine tells of, beside the one that was computed."""

from collections.abc import Mapping
from dataclasses import replace

from inference_operator.api.reasons import ConditionType
from inference_operator.api.status import KvCacheStatus, Status
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.pod import pod_template_hash
from inference_operator.views.samples import EngineSample, Samples, Watched
from tests.status.situations import CURRENT, message, seen, told, view
from tests.testing.builders import ENGINES, deployment_status, inference_deployment, planned, ready_pod

COMPUTED = 394_224
"""Of Qwen3-8B on one H100."""
OLD, YOUNG = (view(ready_pod(), name=f"qwen-engine-{n}", age=n, template=CURRENT) for n in (2, 1))


def serving(tokens: Mapping[str, int | None], before: Status | None = None) -> Inputs:
    found = seen(engines=deployment_status(2), routers=deployment_status(2), pods=[YOUNG, OLD], before=before)
    samples = {uid: EngineSample("qwen", 0, 0, (0.0,), kv_cache_tokens=n) for uid, n in tokens.items()}
    return replace(found, samples=Samples({uid: Watched(one, 0, at=0.0) for uid, one in samples.items()}))


def cache(status: Status) -> KvCacheStatus | None:
    return status.engine.kv_cache if status.engine else None


def test_nothing_is_told_before_an_engine_has_told() -> None:
    assert cache(told(serving({})).status) is None
    assert cache(told(serving({OLD.uid: None})).status) is None


def test_computed_and_told_stand_side_by_side() -> None:
    found = told(serving({OLD.uid: 390_000, YOUNG.uid: 1}))
    assert CURRENT
    assert cache(found.status) == KvCacheStatus(
        estimated_tokens=COMPUTED, reported_tokens=390_000, pod_template_hash=CURRENT
    )
    assert "reports" not in message(found, ConditionType.SIZED)


def test_it_never_changes_by_itself() -> None:
    first = told(serving({OLD.uid: 390_000})).status
    for later in ({OLD.uid: 380_000}, {YOUNG.uid: 1}, {}):
        assert told(serving(later, first)).status == first


def test_another_template_is_another_cache() -> None:
    first = told(serving({OLD.uid: 390_000})).status
    assert first.engine
    assert first.engine.kv_cache
    earlier = first.engine.kv_cache.model_copy(update={"pod_template_hash": "earlier"})
    before = first.model_copy(update={"engine": first.engine.model_copy(update={"kv_cache": earlier})})
    assert cache(told(serving({}, before)).status) is None
    assert cache(told(serving({OLD.uid: 380_000}, before)).status) == earlier.model_copy(
        update={"reported_tokens": 380_000, "pod_template_hash": CURRENT}
    )


def test_pods_that_do_not_count_are_not_heard() -> None:
    found = serving({OLD.uid: 390_000})
    for pod in (replace(OLD, terminating=True), replace(OLD, ready=False), replace(OLD, template="earlier")):
        assert cache(told(replace(found, pods=[pod])).status) is None


def test_a_cache_that_is_not_as_computed_is_said() -> None:
    found = told(serving({OLD.uid: 300_000}))
    said = "An engine reports a KV cache of 300,000 tokens, 24 % fewer than estimated."
    assert message(found, ConditionType.SIZED).endswith(f" {said}")


def test_where_nothing_was_counted_it_is_said_all_the_same() -> None:
    raw = inference_deployment(hardware={"device": "CPU"})
    template = pod_template_hash(planned(raw).desired[ENGINES]["spec"]["template"]["metadata"])
    found = seen(raw, live=raw, engines=deployment_status(1), routers=deployment_status(2))
    engine = Watched(EngineSample("qwen", 0, 0, (0.0,), kv_cache_tokens=65_536), 0, at=0.0)
    one = replace(found, pods=[replace(OLD, template=template)], samples=Samples({OLD.uid: engine}))
    said = message(told(one), ConditionType.SIZED)
    assert said == (
        "On CPUs an engine requests 23Gi of memory, of which 4.5 GiB for the KV cache; nodes are not looked at."
        " An engine reports a KV cache of 65,536 tokens."
    )
