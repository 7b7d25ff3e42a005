from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.hardware import Device
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.api.status import NEVER_OBSERVED, Status
from inference_operator.manifest import Key, Manifest
from tests.testing.builders import UID, inference_deployment
from tests.testing.for_each import for_each
from tests.testing.invalid import INVALID as SHARED

OFFICE = {"start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 2}


def test_a_resource_with_only_a_model_source_has_all_defaults() -> None:
    raw: Manifest = {
        "apiVersion": "inference-operator.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": "qwen", "namespace": "team", "uid": UID, "generation": 3},
        "spec": {"model": {"source": "hf://Qwen/Qwen3-8B"}},
    }
    asked = resource(raw)
    assert (asked.key, asked.uid, asked.generation, asked.deleting) == (Key("team", "qwen"), UID, 3, False)
    spec = asked.spec
    assert isinstance(spec, Spec)
    assert spec.hardware.device is Device.GPU
    assert (spec.parallelism.tensor, spec.replicas, spec.router.replicas) == (None, 1, 2)
    assert (spec.engine.image, spec.engine.args, spec.engine.env, spec.model.served_name) == (None, (), (), None)
    assert asked.status.observed_generation == NEVER_OBSERVED


INVALID: list[tuple[dict[str, object], str]] = [
    ({"model": None}, "spec.model: "),
    ({"model": {}}, "spec.model.source: is required"),
    ({"model": {"source": ""}}, "spec.model.source: "),
    ({"model": {"source": 7}}, "spec.model.source: "),
    ({"model": {"source": "hf://" + "x" * 2000}}, "spec.model.source: "),
    ({"model": {"source": "hf://a/b", "commit": "main"}}, "spec.model.commit: "),
    ({"model": {"source": "hf://a/b", "revision": "a b"}}, "spec.model.revision: must be a branch, tag or commit"),
    ({"model": {"source": "pvc://a", "revision": "main"}}, "spec.model: `revision` needs a source"),
    (
        {"model": {"source": "pvc://a", "tokenSecretRef": {"name": "a", "key": "b"}}},
        "spec.model: `tokenSecretRef`",
    ),
    (
        {"model": {"source": "s3://bucket/a", "revision": "main"}, "cache": {"size": "1Gi"}},
        "spec.model: `revision` needs",
    ),
    ({"model": {"source": "hf://a/b", "s3": {"region": "eu-1"}}}, "spec.model: `s3` needs a source"),
    ({"model": {"source": "s3://bucket/a"}}, "spec: an `s3://` model needs `cache`"),
    (
        {"model": {"source": "s3://bucket/a", "s3": {"endpoint": "minio:9000"}}, "cache": {"size": "1Gi"}},
        "spec.model.s3.endpoint: must be a URL",
    ),
    (
        {
            "model": {"source": "hf://a/b", "tokenSecretRef": {"name": "hub", "key": "token"}},
            "engine": {"env": [{"name": "HF_TOKEN", "value": "hf_1"}]},
        },
        "spec: `model.tokenSecretRef` and the variable `HF_TOKEN` of `engine.env` are both set",
    ),
    ({"parallelism": {"tensor": 0}}, "spec.parallelism.tensor: "),
    ({"parallelism": {"tensor": 65}}, "spec.parallelism.tensor: "),
    ({"parallelism": {"tensor": "two"}}, "spec.parallelism.tensor: "),
    ({"replicas": -1}, "spec.replicas: "),
    ({"replicas": 1025}, "spec.replicas: "),
    ({"router": {"replicas": 0}}, "spec.router.replicas: "),
    ({"router": {"replicas": 17}}, "spec.router.replicas: "),
    ({"hardware": {"device": "TPU"}}, "spec.hardware.device: "),
    ({"engine": {"image": ""}}, "spec.engine.image: "),
    ({"engine": {"args": "--max-model-len=1"}}, "spec.engine.args: "),
    ({"engine": {"args": [""]}}, "spec.engine.args[0]: "),
    ({"engine": {"args": ["x"] * 65}}, "spec.engine.args: "),
    ({"engine": {"env": [{"name": "1A", "value": ""}]}}, "spec.engine.env[0].name: "),
    ({"engine": {"env": [{"name": "A"}]}}, "spec.engine.env[0]: must have exactly one of `value` and `valueFrom`"),
    (
        {"engine": {"env": [{"name": "A", "value": "", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}},
        "spec.engine.env[0]: must have exactly one of `value` and `valueFrom`",
    ),
    ({"engine": {"env": [{"name": "A", "valueFrom": {}}]}}, "spec.engine.env[0].valueFrom: must have exactly one"),
    (
        {"engine": {"env": [{"name": "A", "value": ""}] * 2}},
        "spec.engine.env: must not contain the same variable name twice",
    ),
    ({"engine": {"resources": {"requests": {"cpu": "two"}}}}, "spec.engine.resources.requests.cpu: "),
    ({"engine": {"resources": {"limits": {"cpu": -1}}}}, "spec.engine.resources.limits.cpu: "),
    ({"engine": {"resources": {"limits": {"cpu": True}}}}, "spec.engine.resources.limits.cpu: "),
    ({"engine": {"resources": {"limits": {"memory": 1.5}}}}, "spec.engine.resources.limits.memory: "),
    ({"autoscaling": {}}, "spec.autoscaling.maxReplicas: is required."),
    ({"autoscaling": {"maxReplicas": 0}}, "spec.autoscaling.maxReplicas: "),
    (
        {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}},
        "spec.autoscaling: `minReplicas` must not be above `maxReplicas`",
    ),
    ({"autoscaling": {"maxReplicas": 2, "backend": "Magic"}}, "spec.autoscaling.backend: "),
    ({"autoscaling": {"maxReplicas": 2, "scaleDownDelay": "1s"}}, "spec.autoscaling.scaleDownDelay: "),
    ({"autoscaling": {"maxReplicas": 2, "objective": {"tpot": "50"}}}, "spec.autoscaling.objective.tpot: "),
    ({"autoscaling": {"maxReplicas": 2, "scaleDownDelay": "99999ms"}}, "spec.autoscaling.scaleDownDelay: "),
    (
        {"autoscaling": {"maxReplicas": 2, "schedule": [{"start": "0 8 * * *", "end": "0 18 * * *"}]}},
        "spec.autoscaling.schedule[0].minReplicas: is required.",
    ),
    (
        {"autoscaling": {"maxReplicas": 2, "schedule": [{**OFFICE, "minReplicas": 3}]}},
        "spec.autoscaling: `schedule[].minReplicas` must not be above `maxReplicas`",
    ),
    (
        {"autoscaling": {"maxReplicas": 2, "schedule": [{**OFFICE, "start": "0 25 * * *"}]}},
        "spec.autoscaling.schedule[0].start: is no cron expression (Bad hour): use minute, hour, day of month",
    ),
    (
        {"autoscaling": {"maxReplicas": 2, "schedule": [{**OFFICE, "end": "0 8 L * *"}]}},
        "spec.autoscaling.schedule[0].end: has `L` or `#`, which are not supported",
    ),
    ({"autoscaling": {"maxReplicas": 2, "schedule": [{**OFFICE, "end": "@daily"}]}}, "spec.autoscaling.schedule[0]"),
    (
        {"autoscaling": {"maxReplicas": 2, "schedule": [{**OFFICE, "timeZone": "Berlin"}]}},
        "spec.autoscaling.schedule[0].timeZone: is no IANA time zone: use a name such as `Europe/Berlin` or `UTC`",
    ),
    (
        {"router": {"access": "GatewaysOnly", "ingress": {"host": "a.example"}}},
        "spec.router: `access: GatewaysOnly` refuses what `ingress` and `httpRoute` bring: use those of the gateway",
    ),
    (
        {"autoscaling": {"minReplicas": 0, "maxReplicas": 2}, "router": {"strategy": "External"}},
        "spec: `autoscaling.minReplicas` must be 1 or more with `router.strategy: External`",
    ),
]


@pytest.mark.parametrize(("spec", "message"), INVALID, ids=[message for _, message in INVALID])
def test_a_wrong_field_of_a_spec_is_named_on_a_single_line(spec: dict[str, object], message: str) -> None:
    refusal = resource({**inference_deployment(), "spec": {"model": {"source": "hf://a/b"}, **spec}}).spec
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.INVALID_SPEC
    assert refusal.message.startswith(message)
    assert "\n" not in refusal.message
    assert "Value error" not in refusal.message


@for_each(SHARED)
def test_a_spec_that_the_api_server_refuses_is_also_refused_in_a_file(case: str) -> None:
    spec, field, words = SHARED[case]
    refusal = resource({**inference_deployment(), "spec": {"model": {"source": "hf://a/b"}, **spec}}).spec
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith(field)
    assert words in refusal.message


def test_snake_case_field_names_are_refused_in_a_spec() -> None:
    refusal = resource(inference_deployment(model={"source": "hf://a/b", "served_name": "x"})).spec
    assert isinstance(refusal, Refusal)
    assert refusal.field == "spec.model.served_name"


@pytest.mark.parametrize("name", ["qwen", "q", "qwen3-8b", "a" * 55])
def test_resource_names_that_give_valid_child_names_are_accepted(name: str) -> None:
    assert isinstance(resource(inference_deployment(name=name)).spec, Spec)


@pytest.mark.parametrize("name", ["", "vllm", "Qwen", "3-qwen", "qwen-", "qwen.8b", "qwen_8b", "qwen\n", "a" * 56])
def test_resource_names_that_give_invalid_child_names_are_refused(name: str) -> None:
    refusal = resource(inference_deployment(name=name)).spec
    assert isinstance(refusal, Refusal)
    assert refusal.field == "metadata.name"
    assert "qwen3-8b" in refusal.cure


def test_resource_quantities_may_be_numbers() -> None:
    spec = resource(inference_deployment(engine={"resources": {"requests": {"cpu": 2, "memory": "4Gi"}}})).spec
    assert isinstance(spec, Spec)
    assert spec.engine.resources.requests == {"cpu": "2", "memory": "4Gi"}


def test_unknown_fields_of_a_stored_status_are_ignored() -> None:
    raw = inference_deployment()
    raw["status"] = {"observedGeneration": 4, "url": "u", "replicas": 2, "unknown": "to this version"}
    asked = resource(raw)
    assert asked.status == Status(observed_generation=4, url="u", replicas=2)


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": "none"},
        {"replicas": "many"},
        {"conditions": [{"type": "Ready"}]},
        {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Serving",
                    "message": "",
                    "observedGeneration": 1,
                    "lastTransitionTime": "yesterday",
                }
            ]
        },
    ],
)
def test_an_unreadable_status_counts_as_an_empty_status(status: Manifest) -> None:
    assert resource({**inference_deployment(), "status": status}).status == Status()


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("model", "source", "servedName", "engine", "image", "args", "env", "name", "value", "valueFrom"),
        *("secretKeyRef", "key", "resources", "requests", "limits", "cpu", "hardware", "device", "parallelism"),
        *("tensor", "replicas", "router", "conditions", "observedGeneration", "plan", "metadata", "uid"),
        *("generation", "namespace", "lastTransitionTime", "type", "status"),
    ]
)
LIKE_OURS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["hf://a/b", "True", "GPU", "2026-01-02T03:04:05Z"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=16,
)


@given(meta=JSON | LIKE_OURS, spec=JSON | LIKE_OURS, status=JSON | LIKE_OURS)
def test_reading_a_resource_with_any_content_raises_no_exception(meta: object, spec: object, status: object) -> None:
    asked = resource({"metadata": meta, "spec": spec, "status": status})
    assert isinstance(asked.spec, Spec | Refusal)
    asked = resource({**inference_deployment(), "spec": spec, "status": status})
    if isinstance(asked.spec, Refusal):
        assert "\n" not in asked.spec.message
    asked.status.dump()


@given(status=LIKE_OURS)
def test_a_readable_status_is_written_back_unchanged(status: object) -> None:
    told = resource({**inference_deployment(), "status": status}).status
    assert Status.model_validate(told.dump()) == told


@pytest.mark.parametrize(
    "model",
    [
        {"source": "hf://a/b", "revision": "0" * 40},
        {"source": "pvc://models/a"},
        {"source": f"oci://registry.example/a@sha256:{'0' * 64}"},
    ],
)
def test_pickle_weights_may_be_allowed_where_the_files_cannot_change(model: dict[str, object]) -> None:
    spec = resource(inference_deployment(model={**model, "allowPickle": True})).spec
    assert isinstance(spec, Spec), spec
    assert spec.model.allow_pickle


def test_a_key_of_an_image_has_the_name_that_cosign_gives_it() -> None:
    model = {"source": f"oci://registry.example/a:1@sha256:{'0' * 64}", "verify": {"configMapRef": {"name": "keys"}}}
    spec = resource(inference_deployment(model=model)).spec
    assert isinstance(spec, Spec), spec
    assert spec.model.verify
    assert spec.model.verify.config_map_ref.key == "cosign.pub"
