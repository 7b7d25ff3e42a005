"""Mutants of a module: each is its source with one small change that a test should notice.

| operator | before | after |
|---|---|---|
| comparison | `a < b`, `a == b`, `a in b`, `a is b` | `a <= b`, `a != b`, `a not in b`, `a is not b`, and back |
| boolean | `a and b`, `True` | `a or b`, `False`, and back |
| negation | the condition of `if`, `while`, a conditional expression or a comprehension; `not a` | `not a`; `a` |
| arithmetic | `a + b`, `a * b`, `a // b`, `a % b` | `a - b`, `a / b`, `a * b`, and back |
| constant | a number | one more or one less |
| statement | a call, `raise`, `continue`, `break`, `a += b`, an item or attribute that is set | `pass` |
| return | `return a` | `return None`, or an empty value of the annotated type |

A change keeps the numbers of lines. Annotations, decorators, docstrings and the inside of f-strings stay as they are.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
EMPTY = {"str": "''", "list": "[]", "tuple": "()", "dict": "{}", "Manifest": "{}", "frozenset": "frozenset()"}
NOT_ARITHMETIC = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.ListComp)
"""Operands that a sum joins."""
CONDITIONAL = (ast.If, ast.While, ast.IfExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place of a file."""

    path: Path
    """Relative to the repository."""

    line: int
    operator: str
    before: str
    after: str
    place: str
    """The function with the place, and the text of its line: both stay if lines move."""

    text: str
    """The whole file with the change."""

    lines: tuple[int, int] | None
    """First and last line of the outermost function with the place; None outside functions, which run at import."""

    @property
    def key(self) -> str:
        """Equal for the same change of the same line, wherever that line moves to."""
        return f"{self.operator}: {self.place}: {self.before} -> {self.after}"

    def rank(self, seed: int) -> str:
        """A sample has the lowest ranks, so that it stays the same where the code does."""
        return hashlib.sha256(f"{seed}: {self.key}".encode()).hexdigest()


def mutants(path: Path, source: str) -> list[Mutant]:
    """Every mutant of a file."""
    keys: Counter[str] = Counter()
    made = []
    for mutant in _Places(path, source).mutants():
        keys[mutant.key] += 1
        if keys[mutant.key] == 1:  # further ones would be the same to who reads the list of equivalents
            made.append(mutant)
    return made


def sample(everything: Iterable[Mutant], seed: int, count: int) -> list[Mutant]:
    """Random mutants, in the order of their files."""
    chosen = sorted(everything, key=lambda mutant: mutant.rank(seed))[:count]
    return sorted(chosen, key=lambda mutant: (mutant.path, mutant.line, mutant.key))


class _Places:
    """Walks a file and makes its mutants."""

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        self.source = source.encode()  # columns of the syntax tree count bytes
        self.tree = ast.parse(source)
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def mutants(self) -> Iterator[Mutant]:
        yield from self._below(self.tree, ())

    def _below(self, node: ast.AST, functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]) -> Iterator[Mutant]:
        if isinstance(node, FUNCTIONS):
            functions = (*functions, node)
        for operator, changed, after in _changes(node, functions):
            yield self._mutant(operator, changed, after, functions)
        for child in _mutable_children(node):
            yield from self._below(child, functions)

    def _mutant(self, operator: str, node: ast.expr | ast.stmt, after: str, functions: tuple[ast.stmt, ...]) -> Mutant:
        start, end = self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)
        before = self.source[start:end]
        lost = b"\n" * before.count(b"\n")
        new = after.encode() + lost if isinstance(node, ast.stmt) else b"(" + lost + after.encode() + b")"
        names = [function.name for function in functions if isinstance(function, FUNCTIONS)]
        line = self.source[self.starts[node.lineno - 1] : self.starts[node.lineno]].decode().strip()
        return Mutant(
            path=self.path,
            line=node.lineno,
            operator=operator,
            before=" ".join(before.decode().split()),
            after=after,
            place=f"{'.'.join(names)}: {line}",
            text=(self.source[:start] + new + self.source[end:]).decode(),
            lines=_lines(functions[0]) if functions else None,
        )

    def _offset(self, line: int | None, column: int | None) -> int:
        return self.starts[(line or 1) - 1] + (column or 0)


def _lines(function: ast.stmt) -> tuple[int, int]:
    decorators = function.decorator_list if isinstance(function, FUNCTIONS) else []
    return min([function.lineno, *(decorator.lineno for decorator in decorators)]), function.end_lineno or 0


def _mutable_children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.JoinedStr):  # Python 3.11 does not know the columns inside
        return
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns", "decorator_list", "type_params"}:
            yield from (
                child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST)
            )


Change = tuple[str, ast.expr | ast.stmt, str]


def _changes(node: ast.AST, functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]) -> Iterator[Change]:
    """Operator, what is replaced, and by what."""
    if isinstance(node, ast.expr):
        yield from _changes_of_expression(node)
    elif isinstance(node, ast.Return) and functions:
        yield from _changes_of_return(node, functions[-1])
    elif isinstance(node, ast.stmt) and _is_removable(node):
        yield "statement", node, "pass"
    conditions = [node.test] if isinstance(node, CONDITIONAL) else []
    conditions += node.ifs if isinstance(node, ast.comprehension) else []
    for condition in conditions:
        if not isinstance(condition, ast.UnaryOp | ast.Compare):  # these have mutants of the same meaning
            yield "negation", condition, f"not ({ast.unparse(condition)})"


def _changes_of_expression(node: ast.expr) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[op]):
            yield "comparison", node, ast.unparse(ast.Compare(node.left, [COMPARISONS[type(op)]()], node.comparators))
        case ast.BoolOp(op=op):
            yield (
                "boolean",
                node,
                ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), node.values)),
            )
        case ast.UnaryOp(op=ast.Not()):
            yield "negation", node, ast.unparse(node.operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC and not (_joins(left) or _joins(right)):
            yield "arithmetic", node, ast.unparse(ast.BinOp(left, ARITHMETIC[type(op)](), right))
        case ast.Constant(value=bool(value)):
            yield "boolean", node, str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", node, repr(value + 1)
            yield "constant", node, repr(value - 1)


def _joins(operand: ast.expr) -> bool:
    """Whether an operand of `+` is a text or a list, as far as the source shows it."""
    if isinstance(operand, ast.BinOp):
        return _joins(operand.left) or _joins(operand.right)
    text = isinstance(operand, ast.Constant) and isinstance(operand.value, str | bytes)
    return text or isinstance(operand, NOT_ARITHMETIC)


def _changes_of_return(node: ast.Return, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Change]:
    annotated = function.returns.value if isinstance(function.returns, ast.Subscript) else function.returns
    empty = EMPTY.get(annotated.id, "None") if isinstance(annotated, ast.Name) else "None"
    if node.value is not None and ast.unparse(node.value) not in {empty, "None"}:
        yield "return", node, f"return {empty}"


def _is_removable(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return False
