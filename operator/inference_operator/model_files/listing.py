"""The files of a model that engines need, from the listing of a hub or a bucket. Pure: names come from strangers."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from inference_operator.jobs.inspection_result import unusable
from inference_operator.jobs.result import Cause, Failure
from inference_operator.models.checkpoint import (
    PICKLE,
    PICKLE_CURE,
    PICKLE_PROBLEM,
    SAFETENSORS,
    PickleWeights,
    unsafe_files,
)
from inference_operator.models.config import NotUnderstood
from inference_operator.units import GIB

MAX_FILES = 20_000
"""Maximum number of files of a model. The largest models have some hundreds."""
MAX_NAME_LENGTH, MAX_PART_BYTES = 1024, 255
"""Characters of a file's path; the hub's own limit is lower. Bytes of one part (Linux, `NAME_MAX`)."""
_ODD = re.compile(r"[\x00-\x1f\x7f\\]")
_OTHER_FORMATS = (".bin", ".pt", ".pth", ".msgpack", ".h5", ".onnx", ".ot", ".gguf", ".tflite", ".mlmodel")
"""Weights in formats that vLLM does not read if there are safetensors files (vLLM 0.32.0,
model_executor/model_loader/default_loader.py, `_prepare_weights`)."""
_IGNORED = "original/"
"""Folder of another layout of the same weights, which vLLM ignores (vLLM 0.32.0, config/load.py, `ignore_patterns`)."""
_DENSE = re.compile(r"\d+_Dense/")
"""Folder of a layer behind the pooling of an embedding model. vLLM loads a pickle file there if it has no safetensors
(vLLM 0.32.0, model_executor/models/adapters.py, `_load_dense_weights`)."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ListedFile:
    path: str
    size_bytes: int
    sha256: str = ""
    """Of its content; empty for small files, for which the hub lists no SHA-256, and in a bucket."""
    git_sha1: str = ""
    """Of a small file of a hub, as git counts it: with its size before the content. Empty if it is not listed."""
    etag: str = ""
    """The mark that a bucket gives to a content; empty on a hub."""

    @property
    def blob(self) -> str:
        return self.sha256 or sha256(f"{self.path} {self.etag} {self.size_bytes}".encode()).hexdigest()


def wanted_files(
    model: str, listed: Iterable[ListedFile], *, allow_pickle: bool = False, only: Sequence[str] = ()
) -> Sequence[ListedFile] | Failure:
    """The files to download, sorted by path; a failure if the listing cannot be trusted.

    Args:
        only: the files to take, the first of which must be there; empty for all that engines load.
    """
    by_path: dict[str, ListedFile] = {}
    for file in listed:
        if not is_safe_name(file.path):
            return _damaged(model, f"lists a file with the unsafe name `{_ODD.sub('?', file.path)[:100]}`.")
        if file.size_bytes < 0:
            return _damaged(model, f"lists a wrong size of `{file.path}`.")
        if file.sha256 and not _SHA256.fullmatch(file.sha256):
            return _damaged(model, f"lists a wrong SHA-256 of `{file.path}`.")
        if only and file.path not in only:
            continue
        by_path[file.path] = file
        if len(by_path) > MAX_FILES:
            return _damaged(model, f"has more than {MAX_FILES:,} files.")
    if only and only[0] not in by_path:
        cure = f"Name a folder or repository with `{only[0]}` at its root."
        return unusable(NotUnderstood(model, f"has no `{only[0]}`.", cure))
    if both := next((folder for path in by_path for folder in folders_of(path) if folder in by_path), ""):
        return _damaged(model, f"lists `{both}` as a file and as a folder.")
    dense = _dense_pickle(by_path)
    if not allow_pickle and (unsafe := [*unsafe_files(by_path), *sorted(dense)]):
        return unusable(PickleWeights(model, f"`{unsafe[0]}` is needed. Such files are {PICKLE_PROBLEM}", PICKLE_CURE))
    in_safetensors = any("/" not in path and path.endswith(SAFETENSORS) for path in by_path)
    wanted = [
        file
        for path, file in sorted(by_path.items())
        if not path.startswith(_IGNORED) and (path in dense or not (in_safetensors and path.endswith(_OTHER_FORMATS)))
    ]
    return wanted if sum(file.size_bytes for file in wanted) else _damaged(model, "lists no content.")


def folders_of(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _dense_pickle(paths: Collection[str]) -> set[str]:
    """Pickle files of the layers behind the pooling that have no safetensors."""
    dense = [path for path in paths if _DENSE.match(path)]
    safe = {path.rpartition("/")[0] for path in dense if path.endswith(SAFETENSORS)}
    return {path for path in dense if path.endswith(PICKLE) and path.rpartition("/")[0] not in safe}


def is_safe_name(path: str) -> bool:
    """Whether a path stays below the folder that it is joined to, on any file system.

    Examples:
        >>> is_safe_name("a/b.json"), is_safe_name("a/../../b"), is_safe_name("/etc/passwd"), is_safe_name("a//b")
        (True, False, False, False)
    """
    parts = path.split("/")
    return (
        len(path) <= MAX_NAME_LENGTH
        and not _ODD.search(path)
        and all(p.strip(" ") not in ("", ".", "..") for p in parts)
        and all(len(p.encode(errors="replace")) <= MAX_PART_BYTES for p in parts)
    )


def disk_full(model: str, needed_bytes: int, free_bytes: int) -> Failure:
    """The failure for a claim without room: before a download, or, if 0 more bytes are needed, during one."""
    free = f"the claim in `spec.cache` has {free_bytes / GIB:.1f} GiB left"
    problem = f"needs {needed_bytes / GIB:.1f} GiB more, and {free}."
    if not needed_bytes:
        problem = f"could not be written for lack of space, or for a quota or a limit of files; {free}."
    cure = "Expand the claim, delete models that nothing uses, or use a larger claim."
    return Failure(Cause.DISK_FULL, NotUnderstood(model, problem, cure))


def claim_failed(model: str, why: str) -> Failure:
    cure = "Make the claim writable for the engines' user (2000, group 0), and check its storage."
    return Failure(Cause.DAMAGED, NotUnderstood(model, f"the claim in `spec.cache` cannot be used: {why}.", cure))


def wrong_content(model: str, path: str, what: str) -> Failure:
    """The failure for a file whose size or hash differs from the listing; it has been deleted."""
    return _damaged(model, f"`{path}` was downloaded with another {what} than listed, and was deleted.")


def _damaged(model: str, problem: str) -> Failure:
    cure = "Check the model's store, the mirror and the proxy."
    return Failure(Cause.DAMAGED, NotUnderstood(model, problem, cure))
