"""InferenceDeployments from files, directories and standard input, as the API server would store them.

Pydantic lacks two of its rules: it drops nulls, and rejects numbers in quotes.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from inference_operator.api.field_errors import BOOLEAN, INTEGER, NUMBER, causes, field_error
from inference_operator.api.refusal import Refusal, all_of
from inference_operator.api.spec import Spec
from inference_operator.cli.options import STDIN, file_text
from inference_operator.cli.parser import UsageError
from inference_operator.manifest import API_VERSION, KIND, Manifest

SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of the files that are read from a directory, as kubectl does."""


def documents(names: Sequence[str]) -> Sequence[Manifest]:
    """The InferenceDeployments of some files; raises `UsageError` if one of the files has none."""
    return [document for name in names for document in _of_name(name)]


def read_objects(name: str) -> Sequence[Manifest]:
    path = Path(name)
    is_folder = name != STDIN and path.is_dir()
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES) if is_folder else [path]
    return [document for file in files for document in _objects(str(file))]


def _of_name(name: str) -> Sequence[Manifest]:
    label = "standard input" if name == STDIN else name
    documents = read_objects(name)
    matching = [document for document in documents if _type(document) == (API_VERSION, KIND)]
    if matching:
        return matching
    others = sorted({f"{kind or '?'} of {version or '?'}" for version, kind in map(_type, documents)})
    content = f" It contains {', '.join(others)}." if others else " It is empty."
    raise UsageError(f"{label}: contains no {KIND} of {API_VERSION}.{content}")


def _objects(path: str) -> Sequence[Manifest]:
    label = "standard input" if path == STDIN else path
    try:
        return [item for document in yaml.safe_load_all(file_text(path)) for item in _listed(document)]
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


def stored(spec: object) -> object:
    """The spec without nulls, which the API server drops. Templates leave them where no value is filled in.

    Examples:
        >>> stored({"replicas": None, "engine": {"args": ["--seed=1"], "image": None}})
        {'engine': {'args': ['--seed=1']}}
    """
    if isinstance(spec, dict):
        return {name: stored(value) for name, value in spec.items() if value is not None}
    return [stored(item) for item in spec] if isinstance(spec, list) else spec


def with_quoted_numbers(parsed: Spec | Refusal, spec: object) -> Spec | Refusal:
    """The parsed spec; refused also for numbers and booleans in quotes, which the API server rejects.

    Examples:
        >>> with_quoted_numbers(Spec.model_validate({"model": {"source": "hf://a/b"}}), {"replicas": "2"}).message
        'spec.replicas: must be an integer. Write it without quotes.'
    """
    try:
        Spec.model_validate_json(json.dumps(spec, default=str), strict=True)
    except ValidationError as error:
        texts = [each for each in error.errors(include_url=False) if isinstance(each["input"], str)]
        mistakes = map(field_error, causes(texts))
        quoted = [each for each in mistakes if (each.problem, each.cure) in (BOOLEAN, INTEGER, NUMBER)]
        fields = {each.field for each in quoted}
        others = parsed.mistakes if isinstance(parsed, Refusal) else ()
        return all_of([*quoted, *(each for each in others if each.field not in fields)]) if quoted else parsed
    return parsed
