"""The programs of an installation without own images: archives that the official image of Python runs.

1. An archive has modules, `__main__.py`, and `requirements.txt` with the libraries that uv.lock names, by their hashes.
2. That of the operator has all modules, and beside them the archive of its Jobs.
3. That of the Jobs has the modules that their commands import, wherever in a module the import stands, and the tables
   that these modules name.
4. The same sources give the same bytes, so the SHA-256 of an archive changes only with them.
"""

import ast
import io
import lzma
import re
import tarfile
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from e2e.deploy.uv import uv
from inference_operator.cli.job.main import COMMANDS

PACKAGE = "inference_operator"
SOURCES = Path(__file__).parents[2] / "operator"
JOBS_FILE = "jobs.tar"
"""Name of the Jobs' archive in the operator's."""
_MAIN = "from {module} import main\n\nmain()\n"
_INSTALLABLE = re.compile(r"-(any|[^-]*manylinux[^-]*)[.]whl$")
"""File names of wheels for the official image of Python, which is made from Debian (PEP 427, PEP 600)."""
_TEXT = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}]
"""Texts have no words of fixed size: 0.7 % less than the preset alone."""
_NOT_SOURCES = {"__pycache__"}


def operator_program() -> bytes:
    """The archive of the operator."""
    files = {path.relative_to(SOURCES).as_posix(): path.read_bytes() for path in _files()}
    main = {"__main__.py": _main(f"{PACKAGE}.app"), "requirements.txt": requirements("--no-dev")}
    return lzma.compress(_archive({**files, **main, JOBS_FILE: job_program()}), filters=_TEXT)


def job_program() -> bytes:
    """The archive of the Jobs. It is not compressed: nearly all of its files are in the other archive too."""
    start = [f"{PACKAGE}.cli.job.{name}" for name in ("main", *COMMANDS)]
    paths = [path for path in map(_path, sorted(imported(start))) if path]
    every = {*paths, *(table for path in paths for table in _tables(path))}
    files = {path.relative_to(SOURCES).as_posix(): path.read_bytes() for path in every}
    main = {"__main__.py": _main(f"{PACKAGE}.cli.job.main"), "requirements.txt": requirements("--only-group=jobs")}
    return _archive({**files, **main})


def imported(start: list[str]) -> set[str]:
    """The modules of the package that these modules import, directly or through others; with themselves."""
    found: set[str] = set()
    todo = list(start)
    while todo:
        name = todo.pop()
        path = _path(name)
        if name in found or path is None:
            continue
        found.add(name)
        todo += [name.rpartition(".")[0], *imports(ast.parse(path.read_text()))]
    return found


def imports(tree: ast.Module) -> Iterator[str]:
    """The names that a module imports, except those for types only."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        types_only = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        nodes += [] if types_only else list(ast.iter_child_nodes(node))


def _tables(module: Path) -> Iterator[Path]:
    """The tables beside a module that it names: a file of JSON, or a text file with or without its ending."""
    texts = {node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant)}
    yield from (path for path in module.parent.glob("*.json") if path.name in texts)
    yield from (path for path in module.parent.glob("*.txt") if {path.name, path.stem} & texts)


def _path(module: str) -> Path | None:
    """The file of a module of the package; None for another one, and for a name that is no module."""
    place = SOURCES.joinpath(*module.split("."))
    candidates = (place / "__init__.py", place.with_suffix(".py")) if module.partition(".")[0] == PACKAGE else ()
    return next((path for path in candidates if path.is_file()), None)


def _files() -> Iterator[Path]:
    paths = sorted((SOURCES / PACKAGE).rglob("*"))
    return (path for path in paths if path.is_file() and _NOT_SOURCES.isdisjoint(path.parts))


def _main(module: str) -> bytes:
    return _MAIN.format(module=module).encode()


def requirements(selection: str) -> bytes:
    """The libraries that uv.lock names, as pip reads them, with the hashes of the wheels that the image can install.

    Hashes do not compress. Those of all files that uv.lock names would be a tenth of the archive.

    Args:
        selection: an option of `uv export`.
    """
    exported = uv("export", "--frozen", "--no-emit-project", "--no-header", "--no-annotate", selection)
    wheels = _wheel_hashes()
    blocks = re.split(r"\n(?=\S)", exported.strip())
    return "".join(_requirement(block, wheels) for block in blocks).encode()


def _requirement(block: str, wheels: Collection[str]) -> str:
    """One library with its hashes, as pip reads it."""
    named, *hashes = (line.strip().removesuffix("\\").strip() for line in block.splitlines())
    kept = [one for one in hashes if one.removeprefix("--hash=") in wheels]
    return " \\\n    ".join([named, *kept]) + "\n"


def _wheel_hashes() -> frozenset[str]:
    """The hashes of all wheels in uv.lock for Debian's libc, or for every platform."""
    locked = tomllib.loads((SOURCES.parent / "uv.lock").read_text())
    wheels = (wheel for package in locked["package"] for wheel in package.get("wheels", ()))
    return frozenset(wheel["hash"] for wheel in wheels if _INSTALLABLE.search(wheel["url"]))


def _archive(files: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()
