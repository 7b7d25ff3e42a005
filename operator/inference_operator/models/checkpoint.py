"""The bytes of a checkpoint's weights: only files that are loaded count."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.models.not_understood import NotUnderstood

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_CURE = "Give a repository with safetensors or GGUF files."


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of all weights together."""

    total_bytes: int
    origin: str
    exact: bool = True
    """False: the sum of all files, which may hold more than is loaded."""


def weights_of_files(sizes: Mapping[str, int], index: object = None) -> Weights | NotUnderstood:
    """The bytes that an engine loads, from the names and sizes of a repository's files.

    Args:
        sizes: bytes of each file by its path.
        index: the parsed `model.safetensors.index.json`, if the repository has one.

    Examples:
        >>> sizes = {"a.safetensors": 10, "b.safetensors": 20, "original/a.safetensors": 99, "tokenizer.json": 5}
        >>> weights_of_files(sizes, {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}).total_bytes
        30
        >>> weights_of_files({"model.safetensors": 7}).total_bytes
        7
        >>> weights_of_files({"model-q4.gguf": 7}).origin
        'model-q4.gguf'
        >>> print(weights_of_files({"README.md": 7}).message)
        weights: no safetensors or GGUF file is there. Give a repository with safetensors or GGUF files.
    """
    if index is not None:
        return _indexed(sizes, index)
    if SINGLE in sizes:
        return Weights(sizes[SINGLE], SINGLE)
    for ending in (".safetensors", ".gguf"):
        named = [name for name in sizes if name.endswith(ending) and "/" not in name]
        if len(named) == 1:
            return Weights(sizes[named[0]], named[0])
        if named:
            return Weights(sum(sizes[name] for name in named), f"{len(named)} {ending} files", exact=ending != ".gguf")
    return _refusal("no safetensors or GGUF file is there.")


def _indexed(sizes: Mapping[str, int], index: object) -> Weights | NotUnderstood:
    named = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(named, dict) or not named or not all(isinstance(file, str) for file in named.values()):
        return _refusal(f"`{INDEX}` has no `weight_map` of tensors to files.")
    files = sorted(set(named.values()))
    if missing := [name for name in files if name not in sizes]:
        return _refusal(f"`{missing[0]}` is named by `{INDEX}` and is not there.")
    return Weights(sum(sizes[name] for name in files), f"{len(files)} files of {INDEX}")


def _refusal(problem: str) -> NotUnderstood:
    return NotUnderstood("weights", problem, _CURE)
