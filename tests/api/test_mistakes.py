"""Every mistake in a spec is told in words for its user: which field, what, and the cure."""

import pytest

from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from tests.builders import inference_deployment

EXPLAIN = "kubectl explain infd.spec"

SAID: list[tuple[dict[str, object], str]] = [
    ({"repilcas": 2}, "spec.repilcas: is no field of this version. Did you mean `replicas`?"),
    (
        {"engine": {"maxModelLength": 2}},
        "spec.engine.maxModelLength: is no field of this version. Did you mean `maxModelLen`?",
    ),
    (
        {"podTemplate": {"sidecars": [{"name": "a", "image": "b", "comand": []}]}},
        "spec.podTemplate.sidecars[0].comand: is no field of this version. Did you mean `command`?",
    ),
    ({"x": 2}, f"spec.x: is no field of this version. Remove it; `{EXPLAIN}` lists what there is."),
    ({"engine": {"x": 2}}, f"spec.engine.x: is no field of this version. Remove it; `{EXPLAIN}.engine` lists what"),
    ({"model": {}}, f"spec.model.source: is required. Set it; `{EXPLAIN}.model.source` says how."),
    ({"model": "hf://a/b"}, "spec.model: must be an object. Write its fields below it, one a line and indented."),
    ({"model": {"source": 7}}, 'spec.model.source: must be text. Write it in quotes: "…".'),
    ({"hardware": {"device": "gpu"}}, "spec.hardware.device: `gpu` is not allowed. Write `GPU` or `CPU`."),
    (
        {"hardware": {"gpu": {"memory": "80GB"}}},
        "spec.hardware.gpu.memory: `80GB` has a form that cannot",
    ),
    ({"hardware": {"gpu": {"products": "L4"}}}, "spec.hardware.gpu.products: must be a list. Write one, for example"),
    (
        {"engine": {"resources": {"requests": {"memory": "16GB"}}}},
        "spec.engine.resources.requests.memory: `16GB` has a form that cannot be used. Write a Kubernetes quantity,",
    ),
    (
        {"engine": {"quantization": "F P"}},
        f"spec.engine.quantization: `F P` has a form that cannot be used. See `{EXPLAIN}.engine.quantization`.",
    ),
    ({"engine": {"gpuMemoryUtilization": 95}}, "spec.engine.gpuMemoryUtilization: `95` is too large. Write 1 or less."),
    (
        {"engine": {"maxModelLen": 16777217}},
        "spec.engine.maxModelLen: `16777217` is too large. Write 16777216",
    ),
    ({"replicas": -1}, "spec.replicas: `-1` is too small. Write 0 or more."),
    ({"replicas": 1.5}, "spec.replicas: must be a whole number. Write one without quotes."),
    ({"replicas": float("inf")}, "spec.replicas: must be a number. Write one without quotes."),
    ({"replicas": []}, "spec.replicas: must be a whole number. Write one without quotes."),
    ({"paused": 7}, "spec.paused: must be `true` or `false`. Write one of them without quotes."),
    ({"engine": {"args": [""]}}, "spec.engine.args[0]: is too short. It has at least so many characters: 1."),
    ({"engine": {"args": ["x" * 4097]}}, "spec.engine.args[0]: is too long. It has at most 4096 characters."),
    ({"engine": {"args": ["x"] * 65}}, "spec.engine.args: has too many items. It has at most 64."),
]


@pytest.mark.parametrize(("spec", "message"), SAID, ids=[message for _, message in SAID])
def test_a_mistake_is_told_with_its_cure(spec: dict[str, object], message: str) -> None:
    refusal = resource({**inference_deployment(), "spec": {"model": {"source": "hf://a/b"}, **spec}}).spec
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith(message)


@pytest.mark.parametrize("spec", ["text", 7, []])
def test_a_spec_that_is_no_object_is_told(spec: object) -> None:
    refusal = resource({**inference_deployment(), "spec": spec}).spec
    assert isinstance(refusal, Refusal)
    assert refusal.message == "spec: must be an object. Write its fields below it, one a line and indented."


def test_a_long_value_is_not_repeated() -> None:
    refusal = resource(inference_deployment(hardware={"device": "x" * 100})).spec
    assert isinstance(refusal, Refusal)
    assert refusal.problem == "What is written is not allowed."
