import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.crd import structural_schema
from inference_operator.api.field_hints import OF_OTHER_PROJECTS, field_hint, value_hint
from inference_operator.api.refusal import MOST_MISTAKES, Refusal
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from tests.testing.builders import inference_deployment

SCHEMA = structural_schema(Spec)


def refused(**spec: Any) -> Refusal:  # noqa: ANN401 - any JSON
    found = resource(inference_deployment(**spec)).spec
    assert isinstance(found, Refusal), found
    return found


def field(path: str) -> Manifest:
    node = SCHEMA
    for step in path.split("."):
        node = node["properties"][step]
    return node


@pytest.mark.parametrize("name", OF_OTHER_PROJECTS)
def test_the_field_to_use_instead_of_one_of_another_project_exists(name: str) -> None:
    for path in re.findall("`spec[.]([^`]+)`", OF_OTHER_PROJECTS[name]):
        assert field(path)["description"]
    assert name not in SCHEMA["properties"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"minReplicas": 1},
            "spec.minReplicas: is not a field of this API version. Use `spec.autoscaling.minReplicas`.",
        ),
        ({"maxModelLen": 8192}, "spec.maxModelLen: is not a field of this API version. Use `spec.engine.maxModelLen`."),
        ({"url": "a"}, "Use `spec.model.source`, for example `hf://Qwen/Qwen3-8B`."),
        ({"gpu": 4}, "Use nothing: the number is computed."),
        ({"engine": {"tensorParallelSize": 4}}, "Use `spec.parallelism.tensor`."),
        ({"resourceProfile": "nvidia-gpu-h100:4"}, "`spec.hardware.gpu.products`"),
        ({"hardware": {"gpu": {"product": ["L4"]}}}, "Did you mean `products`?"),
        ({"hardware": {"device": "cpu"}}, "`cpu` is not allowed. Did you mean `CPU`? Use `GPU` or `CPU`."),
        ({"cache": {"accessMode": "RWX"}}, "Did you mean `ReadWriteMany`?"),
        (
            {"cache": {"storageClass": "fast"}},
            "spec.cache.storageClass: is not a field of this API version. Did you",
        ),
        ({"cache": {"pvc": "models"}}, "spec.cache.pvc: is not a field of this API version. Remove it."),
    ],
)
def test_a_field_or_value_that_other_tools_have_gets_the_one_of_this_api(spec: Manifest, message: str) -> None:
    assert message in refused(**spec).message


def test_all_mistakes_of_a_specification_are_told_at_once() -> None:
    spec: Manifest = {
        "cache": {"size": "200GB", "accessMode": "RWX"},
        "autoscaling": {"minReplicas": 3, "maxReplicas": 2},
        "parallelism": {"tensor": "three"},
    }
    found = refused(**spec)
    assert {one.field for one in found.mistakes} == {
        "spec.autoscaling",
        "spec.cache.accessMode",
        "spec.cache.size",
        "spec.parallelism.tensor",
    }
    assert found.message.startswith("4 mistakes. (1) spec.parallelism.tensor: ")
    for one in found.mistakes:
        assert one.message in found.message


def test_a_message_lists_some_mistakes_and_counts_all() -> None:
    message = refused(**{f"unknown{number}": 1 for number in range(100)}).message
    assert message.startswith("100 mistakes. (1) spec.unknown0: ")
    assert message.count("is not a field") == MOST_MISTAKES
    assert message.endswith(f"And {100 - MOST_MISTAKES} more.")


@given(section=st.lists(st.sampled_from(["router", "engine", "cache", "x", "parentRefs"]), max_size=3), name=st.text())
def test_every_name_gets_a_hint_or_none(section: list[str], name: str) -> None:
    assert isinstance(field_hint(section, name), str)
    assert isinstance(value_hint(name, section), str)
