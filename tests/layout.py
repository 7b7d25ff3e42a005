"""Checks the rules for the shape of the repository: `python -m tests.layout`, a part of `make check`.

A broken rule is an error. A long module is a note.
"""

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "operator" / "inference_operator"
SOFT_LINES, SCRAP_LINES = 500, 40
SMALL_ON_PURPOSE = {
    "engines/group/processes.py": "a file of the program in engines' pods, which a merge would restart",
    "pipeline/turns.py": "a feature's part has a file of its own",
    "pipeline/gang.py": "a feature's part has a file of its own",
    "pipeline/plans.py": "a feature's part has a file of its own",
    "pipeline/watchdog.py": "a feature's part has a file of its own",
    "workload/eviction/failed_pods.py": "each reason for which a pod ends has a file of its own",
}
"""Modules below `SCRAP_LINES` with one reader that stand, and why."""
MOST_LINES_OF_A_FUNCTION = 40
WORDS_OF_ENGINES = {
    re.compile(r"vllm:|--max-num-"): (frozenset({"engines"}), "names of vLLM's flags and metrics"),
    re.compile(r"[cg]pu_engine_image"): (frozenset({"engines", "settings.py"}), "the settings with vLLM's images"),
    re.compile(r"\b(EngineMemory|PagedEngine|paged_budget)\b"): (
        frozenset({"engines", "sizing"}),
        "how vLLM uses memory",
    ),
}
"""What only engines know, and the rooms and modules that may name it."""
CATCH_ALL_NAMES = frozenset({"utils", "util", "helpers", "common", "misc"})
IMPURE_ROOMS = frozenset({"controller", "kube", "telemetry", "cli", "app", "scrape", "model_files", "settings", "py"})
EXPANDED_FIELDS = frozenset({"command", "args", "env", "envFrom", "subPathExpr"})
"""Fields of a container in which Kubernetes expands `$(NAME)`, or takes variables from a Secret as a whole."""
ROOMS_WITH_OTHER_FIELDS = frozenset({"api", "cli"})
"""They build no containers, and have the resource's fields of these names."""
MAKERS_OF_CONTAINERS = frozenset({"container.py", "pod_additions.py"})
"""Of the operator's containers, and of sidecars. Both are in `objects`."""
TOOLS_WITHOUT_THE_OPERATOR = (("localkube",), ("images",), ("deploy", "demo"))


class Module:
    """One Python file, parsed once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text()
        self.tree = ast.parse(self.text)
        self.lines = len(self.text.splitlines())

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def dotted(self) -> str:
        """Its import name, where it belongs to the operator."""
        parts = self.path.relative_to(PACKAGE.parent).with_suffix("").parts
        return ".".join(part for part in parts if part != "__init__")

    def imports(self) -> Iterator[str]:
        """The modules that it imports; of `from a import b`, both `a` and `a.b`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(*tops: str) -> list[Module]:
    """Every Python file below these folders."""
    return [Module(path) for top in tops for path in sorted((ROOT / top).rglob("*.py"))]


def errors(operator: list[Module], others: list[Module]) -> Iterator[str]:
    """Every broken rule, as `where: what`."""
    yield from _hidden_standard_library([*operator, *others])
    yield from _ignored_rooms()
    yield from _pure_rooms()
    for module in operator:
        yield from _long_functions(module)
        yield from _containers_made_by_hand(module)
        if not (ast.get_docstring(module.tree) or "").strip():
            yield f"{module}: has no docstring that says what the module is for"
        for words, (rooms, what) in WORDS_OF_ENGINES.items():
            if module.path.relative_to(PACKAGE).parts[0] not in rooms and words.search(module.text):
                yield f"{module}: {what} belong into engines/; ask the engine"
        if CATCH_ALL_NAMES & {module.path.stem, module.path.parent.name}:
            yield f"{module}: a module is named after its one reason to change"
    for module in others:
        top, *tool = module.path.relative_to(ROOT).with_suffix("").parts
        is_free = top == "e2e" and any(tuple(tool[: len(own)]) == own for own in TOOLS_WITHOUT_THE_OPERATOR)
        if is_free and any(name.partition(".")[0] == "inference_operator" for name in module.imports()):
            yield f"{module}: this tool imports nothing of the operator"


def notes(operator: list[Module], others: list[Module]) -> Iterator[str]:
    """What a reviewer may want to look at."""
    for module in (*operator, *others):
        if module.lines > SOFT_LINES:
            yield f"{module}: {module.lines} lines; has it one reason to change?"


def small_modules(operator: list[Module]) -> Iterator[str]:
    """Each module that belongs to its only reader. The values of a template stand in the module of its name."""
    readers = Counter(name for module in operator for name in set(module.imports()))
    for module in operator:
        path = module.path.relative_to(PACKAGE).as_posix()
        is_small = module.path.name != "__init__.py" and module.lines < SCRAP_LINES and readers[module.dotted] == 1
        if is_small and path not in SMALL_ON_PURPOSE and not list(module.path.parent.glob(f"{module.path.stem}.*.j2")):
            yield f"{module}: {module.lines} lines and one reader; move them to it"


def _hidden_standard_library(everything: list[Module]) -> Iterator[str]:
    """The folder `operator/` has the name of a module of the standard library, which must stay importable."""
    if (ROOT / "operator" / "__init__.py").exists():
        yield "operator/__init__.py: hides the standard library's module"
    yield from (f"{one}: hides the standard library's module" for one in everything if one.path.name == "operator.py")
    for path in (ROOT / "operator").iterdir():
        if path.name not in {PACKAGE.name, "__pycache__"}:
            yield f"operator/{path.name}: only the package belongs into operator/"


def _ignored_rooms() -> Iterator[str]:
    rooms = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    for line in (ROOT / ".gitignore").read_text().splitlines():
        if line and not line.startswith(("#", "/")) and line.strip("/") in rooms:
            yield f".gitignore: {line} ignores a room of the operator; anchor it with /"


def _pure_rooms() -> Iterator[str]:
    """Every room is either listed as pure in the import contract or is one of those that act."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (pure,) = [contract for contract in contracts if "asyncio" in contract.get("forbidden_modules", ())]
    listed = {module.rpartition(".")[2] for module in pure["source_modules"]}
    rooms = {path.stem for path in PACKAGE.iterdir() if path.stem[0] != "_"} - IMPURE_ROOMS
    yield from (f"pyproject.toml: the contract of the pure rooms lacks {room}" for room in sorted(rooms - listed))
    yield from (f"pyproject.toml: the contract of the pure rooms names {room}" for room in sorted(listed - rooms))


def _long_functions(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node) or ""
            length = (node.end_lineno or 0) - node.lineno - len(documented.splitlines())
            if length > MOST_LINES_OF_A_FUNCTION:
                yield f"{module}: {node.name} has {length} lines, more than {MOST_LINES_OF_A_FUNCTION}"


def _is_written_item(node: ast.AST) -> TypeGuard[ast.Subscript]:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)


def _containers_made_by_hand(module: Module) -> Iterator[str]:
    """Each field of a container that must come from `objects/container.py`, so that nothing in it is expanded."""
    room, name = module.path.relative_to(PACKAGE).parts[0], module.path.name
    if room in ROOMS_WITH_OTHER_FIELDS or (room == "objects" and name in MAKERS_OF_CONTAINERS):
        return
    for node in ast.walk(module.tree):
        keys = node.keys if isinstance(node, ast.Dict) else [node.slice] if _is_written_item(node) else []
        for key in keys:
            if isinstance(key, ast.Constant) and key.value in EXPANDED_FIELDS:
                yield f"{module}: `{key.value}` of a container comes from `process_fields` or `pre_stop`"


def main() -> int:
    """Print errors and notes; returns the exit status."""
    operator, others = modules("operator"), modules("e2e", "bench", "tests", "generators")
    broken = [*errors(operator, others), *small_modules(operator)]
    for note in notes(operator, others):
        print(f"note: {note}")
    for error in broken:
        print(f"error: {error}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
