"""Size and format of a checkpoint's weights, from the names and sizes of its files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from inference_operator.models.config import NotUnderstood

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SAFETENSORS, GGUF = ".safetensors", ".gguf"
PICKLE = (".bin", ".pt", ".pth")
_LOADED = (".bin", ".pt")
"""Pickle files that vLLM loads: the first kind that is there (0.32.0, model_loader/default_loader.py)."""
_OF_TRAINING = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
"""Ends of names that it does not load (0.32.0, weight_utils.py, `filter_files_not_needed_for_inference`)."""
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})\.gguf", re.ASCII)
"""The name of one part of a GGUF model (llama.cpp, `tools/gguf-split`)."""
_PIECE = re.compile(r"\.gguf[-.](?:split-\w{1,8}|part-?\w{1,8}|\d{1,4})$", re.ASCII)
"""The name of a piece that was cut without a header of its own, as for the hub's former limit of 50 GB."""
_SHOWN = re.compile(r"[\w./+-]{1,200}", re.ASCII)
"""A path that a message repeats."""
_MOST_PARTS = 1000
"""Parts of a model at most; the largest published ones have about 50."""
_CURE = "Give a repository with safetensors or GGUF files."


class WeightFormat(Enum):
    SAFETENSORS = "safetensors"
    GGUF = "GGUF"
    """One file, or several parts; llama.cpp reads it."""
    PICKLE = "pickle files"
    """Can run code when it is loaded, so it needs consent."""


@dataclass(frozen=True, slots=True)
class PickleWeights(NotUnderstood):
    """Weights that need consent and have none. An engine would load them, so none may start."""


@dataclass(frozen=True, slots=True)
class Weights:
    total_bytes: int
    origin: str
    """The files, as users read them."""
    exact: bool = True
    """False: the sum of all files, which may be more than the engine loads."""
    file_format: WeightFormat = WeightFormat.SAFETENSORS
    plain: bool = False
    """Whether a file's header was read and says that its tensors are not quantized."""


PLAIN_TYPES = frozenset({"F16", "BF16", "F32", "F64"})
"""Types of tensors that are not quantized (safetensors 0.8, `Dtype`)."""
PLAIN_SHARE = 0.99
"""Least fraction of elements in these types. Other elements are positions, counters and masks."""


def is_plain(elements: Mapping[str, int]) -> bool:
    """Whether the tensors of a file are not quantized.

    Args:
        elements: number of elements by the type in the file's header.

    Examples:
        >>> is_plain({"BF16": 1000, "I64": 1}), is_plain({"F16": 200, "I32": 100}), is_plain({})
        (True, False, False)
    """
    total = sum(elements.values())
    return total > 0 and sum(count for kind, count in elements.items() if kind in PLAIN_TYPES) >= PLAIN_SHARE * total


def format_of(origin: str) -> WeightFormat:
    """The format of stored weights. Stored entries contain the names of the files but not their format.

    Examples:
        >>> format_of("model-q4.gguf"), format_of("2 .gguf files"), format_of("model.safetensors")
        (<WeightFormat.GGUF: 'GGUF'>, <WeightFormat.GGUF: 'GGUF'>, <WeightFormat.SAFETENSORS: 'safetensors'>)
        >>> format_of("pytorch_model.bin"), format_of("2 .bin files")
        (<WeightFormat.PICKLE: 'pickle files'>, <WeightFormat.PICKLE: 'pickle files'>)
    """
    if origin.endswith((GGUF, GGUF_FILES)):
        return WeightFormat.GGUF
    files = tuple(f"{ending} files" for ending in PICKLE)
    return WeightFormat.PICKLE if origin.endswith((*PICKLE, *files)) else WeightFormat.SAFETENSORS


def weights_of_files(
    sizes: Mapping[str, int], index: object = None, *, allow_pickle: bool = False
) -> Weights | NotUnderstood:
    """The weights that an engine loads from a repository.

    Examples:
        >>> sizes = {"a.safetensors": 10, "b.safetensors": 20, "original/a.safetensors": 99, "tokenizer.json": 5}
        >>> weights_of_files(sizes, {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}).total_bytes
        30
        >>> weights_of_files({"model.safetensors": 7}).total_bytes
        7
        >>> weights_of_files({"model-q4.gguf": 7}).origin
        'model-q4.gguf'
        >>> weights = weights_of_files({"q4-00001-of-00002.gguf": 7, "q4-00002-of-00002.gguf": 8})
        >>> weights.total_bytes, weights.origin
        (15, 'q4-00001-of-00002.gguf')
        >>> weights_of_files({"model-q4.gguf": 7, "pytorch_model.bin": 9}).problem
        'they are pickle files, which can run code when they are loaded.'
        >>> weights_of_files({"pytorch_model.bin": 7, "training_args.bin": 1}, allow_pickle=True).total_bytes
        7
        >>> below = weights_of_files({"Q3/a-00001-of-00002.gguf": 7, "Q3/a-00002-of-00002.gguf": 7})
        >>> print(below.message)
        weights: its 1 GGUF model is in a folder. Name one at the end of `spec.model.source`, for example \
`/Q3/a-00001-of-00002.gguf`.
    """
    if index is not None:
        return _indexed(sizes, index, allow_pickle=allow_pickle)
    if SINGLE in sizes:
        return Weights(sizes[SINGLE], SINGLE)
    if named := _top_level_files(sizes, SAFETENSORS):
        return _of(named, f"{len(named)} {SAFETENSORS} files")
    pickle = next((weights for ending in _LOADED if (weights := _pickle(sizes, ending))), None)
    named = {name: size for name, size in _top_level_files(sizes, GGUF).items() if _is_gguf_model(name)}
    if named and not pickle:  # of a folder with both, vLLM loads the pickle files
        return _gguf(named)
    if not allow_pickle and unsafe_files(sizes):
        return PickleWeights("weights", f"they are {PICKLE_PROBLEM}", PICKLE_CURE)
    return pickle or _elsewhere(sizes) or _refusal("no safetensors or GGUF file is there.")


GGUF_FILES = f"{GGUF} files"
PICKLE_PROBLEM = "pickle files, which can run code when they are loaded."
PICKLE_CURE = (
    "Use a revision with safetensors, convert them, or, if you trust their author, set `spec.model.allowPickle: true`."
)
PROJECTOR = "mmproj"
"""Prefix of the file of a vision tower beside a GGUF model (llama.cpp, `docs/multimodal.md`)."""


def unsafe_files(paths: Iterable[str]) -> list[str]:
    """The pickle files that need consent, sorted: those in the top folder that an engine may load as weights.

    1. If there are safetensors files, it loads no others.
    2. If there is a GGUF model, it loads a pickle file instead of that one, but no files of a training.
    3. Otherwise each pickle file counts.

    Examples:
        >>> unsafe_files(["a.safetensors", "a.bin"]), unsafe_files(["a.gguf", "a.bin", "optimizer.pt"])
        ([], ['a.bin'])
        >>> unsafe_files(["optimizer.pt", "layers/a.bin"])
        ['optimizer.pt']
    """
    named = sorted(path for path in paths if "/" not in path)
    if any(path.endswith(SAFETENSORS) for path in named):
        return []
    if any(_is_gguf_model(path) for path in named):
        return [path for path in named if path.endswith(_LOADED) and not path.endswith(_OF_TRAINING)]
    return [path for path in named if path.endswith(PICKLE)]


def gguf_parts(file: str) -> tuple[str, ...]:
    """The files of a GGUF model, by the path of the only or first one; none without a path.

    Examples:
        >>> gguf_parts("q4.gguf"), gguf_parts("Q4/a-00001-of-00002.gguf")
        (('q4.gguf',), ('Q4/a-00001-of-00002.gguf', 'Q4/a-00002-of-00002.gguf'))
    """
    match = _SHARD.fullmatch(file)
    if not match or not 0 < int(match[2]) <= _MOST_PARTS:
        return (file,) if file else ()
    return tuple(f"{match[1]}-{number:05}-of-{match[2]}.gguf" for number in range(1, int(match[2]) + 1))


def _is_gguf_model(name: str) -> bool:
    return name.endswith(GGUF) and not name.startswith(PROJECTOR)


def _top_level_files(sizes: Mapping[str, int], ending: str) -> Mapping[str, int]:
    return {name: size for name, size in sizes.items() if name.endswith(ending) and "/" not in name}


def _elsewhere(sizes: Mapping[str, int]) -> NotUnderstood | None:
    """The refusal that names where GGUF models are: in folders, or in pieces; None if there are none."""
    below = sorted(path for path in sizes if _is_gguf_model(path.rpartition("/")[2]))
    if not below:
        problem, cure = "the GGUF model is in pieces that are no files of their own.", "Join the pieces with `cat`"
        pieces = any(_PIECE.search(path) for path in sizes)
        return NotUnderstood("weights", problem, f"{cure} to one file that ends in `.gguf`.") if pieces else None
    firsts = [path for path in below if gguf_parts(path)[0] == path]
    shown = next((path for path in firsts if _SHOWN.fullmatch(path)), "")
    example = f", for example `/{shown}`" if shown else ""
    count = len(firsts) or len(below)
    problem = f"its {count} GGUF {'model is in a folder' if count == 1 else 'models are in folders'}."
    return NotUnderstood("weights", problem, f"Name one at the end of `spec.model.source`{example}.")


def _of(named: Mapping[str, int], several: str) -> Weights:
    return Weights(sum(named.values()), several if len(named) > 1 else next(iter(named)))


def _pickle(sizes: Mapping[str, int], ending: str) -> Weights | None:
    files = _top_level_files(sizes, ending).items()
    named = {name: size for name, size in files if not name.endswith(_OF_TRAINING)}
    return replace(_of(named, f"{len(named)} {ending} files"), file_format=WeightFormat.PICKLE) if named else None


def _gguf(named: Mapping[str, int]) -> Weights | NotUnderstood:
    """One model, in one file or in parts, with the name of the first. Refuses several precisions of one model."""
    parts = {name: _SHARD.fullmatch(name) for name in sorted(named)}
    models = {part.groups() if part else (name,) for name, part in parts.items()}
    if len(models) > 1:
        problem = f"there are {len(models)} GGUF models, and which one to load is unknown."
        return NotUnderstood("weights", problem, "Give a folder or repository with one of them, or with safetensors.")
    first, part = next(iter(parts.items()))
    count = int(part[2]) if part else 1
    if len(named) != count:
        problem = f"of {count} parts of the GGUF model {len(named)} {'is' if len(named) == 1 else 'are'} there."
        return NotUnderstood("weights", problem, "Copy all parts of the model.")
    return Weights(sum(named.values()), first, file_format=WeightFormat.GGUF)


def _indexed(sizes: Mapping[str, int], index: object, *, allow_pickle: bool) -> Weights | NotUnderstood:
    named = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(named, dict) or not named or not all(isinstance(file, str) for file in named.values()):
        return _refusal(f"`{INDEX}` has no `weight_map` of tensors to files.")
    files = sorted(set(named.values()))
    if missing := [name for name in files if name not in sizes]:
        return _refusal(f"`{missing[0]}` is named by `{INDEX}` and is not there.")
    if not allow_pickle and _leads_to_pickle(sizes, files):
        return PickleWeights("weights", f"`{INDEX}` names no file that is loaded, so {_PICKLE_INSTEAD}.", PICKLE_CURE)
    return Weights(sum(sizes[name] for name in files), f"{len(files)} files of {INDEX}")


_PICKLE_INSTEAD = "an engine would load the pickle files beside it"


def _leads_to_pickle(sizes: Mapping[str, int], files: Sequence[str]) -> bool:
    """Whether vLLM would load pickle files in spite of the index.

    It loads the safetensors files beside the index that the index names (0.32.0, model_loader/default_loader.py).
    """
    loaded = [name for name in files if name.endswith(SAFETENSORS) and "/" not in name]
    named = any(name.endswith(PICKLE) for name in files)
    return not loaded and (named or any(_top_level_files(sizes, ending) for ending in PICKLE))


def _refusal(problem: str) -> NotUnderstood:
    return NotUnderstood("weights", problem, _CURE)
