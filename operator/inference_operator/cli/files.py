"""Reads InferenceDeployments from files, directories and standard input."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from inference_operator.cli.parser import UsageError
from inference_operator.manifest import API_VERSION, KIND, Manifest

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of the files that are read from a directory, as kubectl does."""


def documents(names: Sequence[str]) -> Sequence[Manifest]:
    """The InferenceDeployments of some files; raises `UsageError` if one of the files has none."""
    return [document for name in names for document in _of_name(name)]


def read_objects(name: str) -> Sequence[Manifest]:
    """All objects of a file, folder or standard input, whatever their kind."""
    files = _files(Path(name)) if name != STDIN else [Path(name)]
    return [document for file in files for document in _objects(file)]


def _of_name(name: str) -> Sequence[Manifest]:
    label = "standard input" if name == STDIN else name
    documents = read_objects(name)
    matching = [document for document in documents if _type(document) == (API_VERSION, KIND)]
    if matching:
        return matching
    others = sorted({f"{kind or '?'} of {version or '?'}" for version, kind in map(_type, documents)})
    content = f" It contains {', '.join(others)}." if others else " It is empty."
    raise UsageError(f"{label}: contains no {KIND} of {API_VERSION}.{content}")


def _files(path: Path) -> Sequence[Path]:
    return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES) if path.is_dir() else [path]


def _objects(path: Path) -> Sequence[Manifest]:
    label = "standard input" if str(path) == STDIN else str(path)
    try:
        text = sys.stdin.read() if str(path) == STDIN else path.read_text(encoding="utf-8")
        return [item for document in yaml.safe_load_all(text) for item in _listed(document)]
    except OSError as error:
        raise UsageError(f"{label}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{label}: is not UTF-8 text.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{label}: is not valid YAML{position}: {error.problem}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{label}: is not valid YAML.") from error


def _listed(document: object) -> Iterator[Manifest]:
    """The objects of a document; the items of a list, as `kubectl get --output yaml` prints."""
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))
    else:
        yield document


def _type(document: Manifest) -> tuple[str, str]:
    return str(document.get("apiVersion", "")), str(document.get("kind", ""))
