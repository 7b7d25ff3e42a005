"""Messages for invalid fields of a spec: the field, the error and the cure."""

import pytest

from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from tests.testing.builders import inference_deployment

EXPLAIN = "kubectl explain infd.spec"

SAID: list[tuple[dict[str, object], str]] = [
    ({"repilcas": 2}, "spec.repilcas: is not a field of this API version. Did you mean `replicas`?"),
    (
        {"engine": {"maxModelLength": 2}},
        "spec.engine.maxModelLength: is not a field of this API version. Did you mean `maxModelLen`?",
    ),
    (
        {"podTemplate": {"sidecars": [{"name": "a", "image": "b", "comand": []}]}},
        "spec.podTemplate.sidecars[0].comand: is not a field of this API version. Did you mean `command`?",
    ),
    ({"x": 2}, f"spec.x: is not a field of this API version. Remove it. `{EXPLAIN}` lists all fields."),
    ({"engine": {"x": 2}}, f"spec.engine.x: is not a field of this API version. Remove it. `{EXPLAIN}.engine` lists"),
    ({"model": {}}, f"spec.model.source: is required. Set it. `{EXPLAIN}.model.source` describes it."),
    ({"model": "hf://a/b"}, "spec.model: must be an object. Write its fields below it, one per line and indented."),
    ({"model": {"source": 7}}, "spec.model.source: must be a string. Put the value in quotes."),
    (
        {"hardware": {"device": "gpu"}},
        "spec.hardware.device: `gpu` is not allowed. Did you mean `GPU`? Use",
    ),
    (
        {"hardware": {"gpu": {"memory": "80GB"}}},
        "spec.hardware.gpu.memory: `80GB` has an invalid format",
    ),
    (
        {"hardware": {"gpu": {"products": "L4"}}},
        "spec.hardware.gpu.products: must be a list. Write a list, for example",
    ),
    (
        {"engine": {"resources": {"requests": {"memory": "16GB"}}}},
        "spec.engine.resources.requests.memory: `16GB` has an invalid format. Use a Kubernetes quantity,",
    ),
    (
        {"engine": {"quantization": "F P"}},
        f"spec.engine.quantization: `F P` has an invalid format. See `{EXPLAIN}.engine.quantization`.",
    ),
    ({"engine": {"gpuMemoryUtilization": 95}}, "spec.engine.gpuMemoryUtilization: `95` is too large. Use 1 or less."),
    (
        {"engine": {"maxModelLen": 16777217}},
        "spec.engine.maxModelLen: `16777217` is too large. Use 16777216",
    ),
    ({"replicas": -1}, "spec.replicas: `-1` is too small. Use 0 or more."),
    ({"replicas": 1.5}, "spec.replicas: must be an integer. Write it without quotes."),
    ({"replicas": float("inf")}, "spec.replicas: must be a number. Write it without quotes."),
    ({"replicas": []}, "spec.replicas: must be an integer. Write it without quotes."),
    ({"paused": 7}, "spec.paused: must be `true` or `false`. Write it without quotes."),
    ({"engine": {"args": [""]}}, "spec.engine.args[0]: is too short. Minimum length: 1."),
    ({"engine": {"args": ["x" * 4097]}}, "spec.engine.args[0]: is too long. Maximum length: 4096."),
    ({"engine": {"args": ["x"] * 65}}, "spec.engine.args: has too many items. Maximum: 64."),
]


@pytest.mark.parametrize(("spec", "message"), SAID, ids=[message for _, message in SAID])
def test_an_invalid_field_is_refused_with_a_message_that_has_the_cure(spec: dict[str, object], message: str) -> None:
    refusal = resource({**inference_deployment(), "spec": {"model": {"source": "hf://a/b"}, **spec}}).spec
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith(message)


@pytest.mark.parametrize("spec", ["text", 7, []])
def test_a_spec_that_is_not_an_object_is_refused(spec: object) -> None:
    refusal = resource({**inference_deployment(), "spec": spec}).spec
    assert isinstance(refusal, Refusal)
    assert refusal.message == "spec: must be an object. Write its fields below it, one per line and indented."


def test_a_long_invalid_value_is_not_repeated_in_the_message() -> None:
    refusal = resource(inference_deployment(hardware={"device": "x" * 100})).spec
    assert isinstance(refusal, Refusal)
    assert refusal.problem == "The value is not allowed."
