"""InferenceDeployments out of files, folders and standard input."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from inference_operator.cli.mistake import MistakeError
from inference_operator.manifest import API_VERSION, KIND, Manifest

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
"""What is read of a folder, as kubectl does it."""


def documents(names: Sequence[str]) -> Sequence[Manifest]:
    """The InferenceDeployments of some files; raises `MistakeError` where one of these holds none."""
    return [one for name in names for one in _of_name(name)]


def _of_name(name: str) -> Sequence[Manifest]:
    called = "standard input" if name == STDIN else name
    files = _files(Path(name)) if name != STDIN else [Path(name)]
    held = [document for file in files for document in _objects(file)]
    found = [document for document in held if _type(document) == (API_VERSION, KIND)]
    if found:
        return found
    there = sorted({f"{kind or '?'} of {version or '?'}" for version, kind in map(_type, held)})
    instead = f" It holds {', '.join(there)}." if there else " It is empty."
    raise MistakeError(f"{called}: holds no {KIND} of {API_VERSION}.{instead}")


def _files(path: Path) -> Sequence[Path]:
    return sorted(one for one in path.iterdir() if one.suffix in SUFFIXES) if path.is_dir() else [path]


def _objects(path: Path) -> Sequence[Manifest]:
    called = "standard input" if str(path) == STDIN else str(path)
    try:
        text = sys.stdin.read() if str(path) == STDIN else path.read_text(encoding="utf-8")
        return [one for document in yaml.safe_load_all(text) for one in _listed(document)]
    except OSError as error:
        raise MistakeError(f"{called}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise MistakeError(f"{called}: is no UTF-8 text.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise MistakeError(f"{called}: is no YAML{where}: {error.problem}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise MistakeError(f"{called}: is no YAML.") from error


def _listed(document: object) -> Iterator[Manifest]:
    """What a document holds, with the items of a list such as `kubectl get --output yaml` prints."""
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        yield from (one for one in items if isinstance(one, dict))
    else:
        yield document


def _type(document: Manifest) -> tuple[str, str]:
    return str(document.get("apiVersion", "")), str(document.get("kind", ""))
