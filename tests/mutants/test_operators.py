"""Mutants of a source text."""

import ast
from pathlib import Path

import pytest

from tests.mutants.operators import Mutant, mutants, sample

PATH = Path("operator/inference_operator/a.py")


def changes(source: str) -> set[tuple[str, str, str]]:
    return {(one.operator, one.before, one.after) for one in mutants(PATH, source)}


@pytest.mark.parametrize(
    ("expression", "operator", "after"),
    [
        ("a < b", "comparison", "a <= b"),
        ("a not in b", "comparison", "a in b"),
        ("a is None", "comparison", "a is not None"),
        ("a and b and c", "boolean", "a or b or c"),
        ("not a", "negation", "a"),
        ("a + b", "arithmetic", "a - b"),
        ("a // b", "arithmetic", "a * b"),
        ("True", "boolean", "False"),
        ("4", "constant", "5"),
        ("4", "constant", "3"),
        ("0.5", "constant", "1.5"),
    ],
)
def test_an_expression_is_changed(expression: str, operator: str, after: str) -> None:
    assert (operator, expression, after) in changes(f"x = {expression}\n")


def test_a_statement_a_return_and_a_condition_are_changed() -> None:
    source = (
        "def f(a) -> str:\n    if a.ready:\n        a.stop()\n        raise Error\n    a.b = c\n    return a.name\n"
    )
    assert changes(source) == {
        ("negation", "a.ready", "not (a.ready)"),
        ("statement", "a.stop()", "pass"),
        ("statement", "raise Error", "pass"),
        ("statement", "a.b = c", "pass"),
        ("return", "return a.name", "return ''"),
    }


def test_what_has_no_effect_is_left_alone() -> None:
    source = '''"""About 4."""
from a import b

@cache(4)
def f(a: int | None, *, c: Literal[4]) -> Literal[5]:
    """Not 4."""
    x = f"{4 + 1}" + "text" + a
    return None
'''
    assert changes(source) == set()


def test_columns_count_bytes_and_lines_stay_where_they_are() -> None:
    source = "x = 'ä', (a and\n     b), 4\ny = 5\n"
    both = {one.operator: one for one in mutants(PATH, source)}
    assert both["boolean"].text == "x = 'ä', ((\na or b)), 4\ny = 5\n"
    assert all(ast.unparse(ast.parse(one.text)) and one.text.count("\n") == 3 for one in both.values())


def test_a_change_has_the_same_key_and_rank_wherever_its_line_moves_to() -> None:
    source = "def f(a):\n    return a < 4\n"
    here, moved = mutants(PATH, source), mutants(Path("b.py"), f"import a\n\n\n{source}")
    assert [one.key for one in here] == [one.key for one in moved]
    assert [one.rank(1) for one in here] == [one.rank(1) for one in moved]
    assert [one.line for one in moved] == [one.line + 3 for one in here]


def test_a_sample_is_the_same_for_the_same_seed_and_stays_where_code_is_added() -> None:
    lines = [f"x{number} = a < {number}\n" for number in range(50)]
    everything = mutants(PATH, "".join(lines))

    def keys(chosen: list[Mutant]) -> set[str]:
        return {one.key for one in chosen}

    chosen = sample(everything, 1, 10)
    assert keys(chosen) == keys(sample(reversed(everything), 1, 10))
    assert keys(chosen) != keys(sample(everything, 2, 10))
    more = mutants(PATH, "".join(["y = a < b\n", *lines]))
    assert len(keys(chosen) & keys(sample(more, 1, 10))) >= 9
