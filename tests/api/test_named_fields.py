"""Every field that a message, a cure or a page names exists in the CRD."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from inference_operator.api.crd import structural_schema
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from tests.testing.for_each import for_each

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "operator/inference_operator"
OF_OTHER_OBJECTS = {
    "spec.limits",
    "spec.nodeName",
    "spec.template.spec.containers",
    "spec.model.uri",
    "spec.cacheProfile",
    "spec.maxReplicas",
    "spec.resourceProfile",
    "spec.url",
}
"""Fields of Karpenter's NodePools, of pods, and of what `infd import` reads."""
_FIELD = re.compile(r"(?<![\w.-])spec(?:\.[A-Za-z][A-Za-z0-9]*(?:\[[^\]`]*\])?)+")
_SCHEMA = structural_schema(Spec)


def exists(field: str) -> bool:
    """Whether users may set a field."""
    node: Manifest = _SCHEMA
    for step in re.sub(r"\[[^\]]*\]", "", field).split(".")[1:]:
        node = node.get("items", node)
        values = node.get("additionalProperties")
        node = node.get("properties", {}).get(step) or (values if isinstance(values, dict) else {})
        if not node:
            return False
    return True


def texts_of(module: Path) -> Iterator[str]:
    """The texts of a module without its docstrings."""
    tree = ast.parse(module.read_text())
    statements = (one for one in ast.walk(tree) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    docstrings = {id(one.value) for one in statements}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def named_fields(text: str) -> set[str]:
    return set(_FIELD.findall(text)) - OF_OTHER_OBJECTS


@for_each(EXPLANATIONS)
def test_a_cure_names_only_fields_that_users_may_set(reason: str) -> None:
    explained = next(one for name, one in EXPLANATIONS.items() if name == reason)
    assert [one for one in named_fields(f"{explained.cause} {explained.cure}") if not exists(one)] == []


def test_every_message_of_the_operator_names_only_fields_that_users_may_set() -> None:
    named = {
        (one.name, field) for one in SOURCES.rglob("*.py") for text in texts_of(one) for field in named_fields(text)
    }
    assert len(named) > 100
    assert sorted(one for one in named if not exists(one[1])) == []


def test_every_page_for_users_names_only_fields_that_they_may_set() -> None:
    pages = [one for one in (ROOT / "docs").rglob("*.md") if one.parent.name != "adr"]
    named = {(one.name, field) for one in (*pages, ROOT / "README.md") for field in named_fields(one.read_text())}
    assert len(named) > 50
    assert sorted(one for one in named if not exists(one[1])) == []


def test_a_field_of_another_form_or_section_does_not_exist() -> None:
    assert exists("spec.model.adapters[a].source")
    assert exists("spec.model.s3.credentialsSecretRef")
    assert not exists("spec.model.tokenSecret")
    assert not exists("spec.router.maxWait")
