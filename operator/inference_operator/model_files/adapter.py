"""Copies an adapter to a claim, also from a mounted volume, and reads its config and the header of its weights."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from inference_operator.jobs.download_result import StoredAdapter
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import Manifest
from inference_operator.model_files.claim import ModelFolder, Say, digest_of
from inference_operator.model_files.download import ModelOrigin, download
from inference_operator.model_files.files import LENGTH_BYTES, MAX_HEADER_BYTES, InspectionError, unreadable
from inference_operator.model_files.listing import ListedFile, wrong_content
from inference_operator.models.adapter import CONFIG, FILES, WEIGHTS, Shapes, adapter_facts
from inference_operator.models.config import NotUnderstood
from inference_operator.objects.cache_volume import ADAPTERS_FOLDER, folder_of

MAX_SIZE = 2**48
"""Above every dimension and every offset of a file."""
MAX_CONFIG_BYTES = 2**20
"""Maximum size of `adapter_config.json`; usual ones have 1 KiB."""


def store_adapter(
    origin: ModelOrigin, revision: str | None, root: Path, *, say: Say, allow_pickle: bool = False
) -> StoredAdapter | Failure:
    """Make the adapter complete on the claim; the failure tells also what engines could not load."""
    adapters = root / ADAPTERS_FOLDER
    stored = download(origin, revision, adapters, say=say, allow_pickle=allow_pickle, only=FILES)
    if isinstance(stored, Failure):
        return stored
    folder = ModelFolder(adapters, folder_of(origin.model)).snapshot(stored.commit)
    try:
        facts = adapter_facts(_config(folder), _shapes(folder / WEIGHTS))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        facts = NotUnderstood(WEIGHTS, "is damaged.", "Copy the adapter again.")
    if isinstance(facts, NotUnderstood):
        return Failure(Cause.UNUSABLE, NotUnderstood(f"{origin.source}: `{facts.field}`", facts.problem, facts.cure))
    return StoredAdapter(stored.commit, stored.size_bytes, facts)


def _config(folder: Path) -> object:
    path = folder / CONFIG
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return json.loads(file.read(MAX_CONFIG_BYTES))


def _shapes(weights: Path) -> Shapes:
    """The shapes in the header of a safetensors file; empty for an adapter in a pickle file, which is not read."""
    if not weights.is_file():
        return {}
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        if length > MAX_HEADER_BYTES:
            raise ValueError(f"a header of {length} bytes")
        header: Manifest = json.loads(file.read(length))
    tensors = {str(name): tensor for name, tensor in header.items() if name != "__metadata__"}
    data_bytes = max(_size(tensor["data_offsets"][1]) for tensor in tensors.values())
    if LENGTH_BYTES + length + data_bytes != weights.stat().st_size:
        raise ValueError("a file that was cut off")
    return {name: [_size(dimension) for dimension in tensor["shape"]] for name, tensor in tensors.items()}


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_SIZE:
        raise ValueError("a dimension or an offset that is none")
    return value


class FolderOrigin:
    errors: tuple[type[Exception], ...] = ()

    def __init__(self, source: str, folder: Path, names: tuple[str, ...]) -> None:
        self.model = self.source = source
        self._folder, self._names = folder, names

    def commit(self, revision: str | None) -> str:  # noqa: ARG002 - a folder has one content
        digest = hashlib.sha1(self.source.encode(), usedforsecurity=False)
        for file in self.listed(""):
            digest.update(f"{file.path} {file.sha256}\n".encode())
        return digest.hexdigest()

    def listed(self, commit: str) -> Iterator[ListedFile]:  # noqa: ARG002 - a folder has one content
        """The files that are there. A link counts only if it stays in the folder's volume."""
        if not self._folder.is_dir():
            cure = "Check the path in `source`, and that the adapter was copied there."
            why = NotUnderstood(self.source, "there is no such directory.", cure)
            raise InspectionError(Failure(Cause.NOT_FOUND, why))
        for name in self._names:
            path = self._folder / name
            if not path.is_file():
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(self._folder.resolve()):
                problem = f"`{name}` is a link out of its folder."
                why = NotUnderstood(self.source, problem, "Replace it by the file itself.")
                raise InspectionError(Failure(Cause.UNUSABLE, why))
            try:
                yield ListedFile(name, path.stat().st_size, digest_of(path, "sha256"))
            except PermissionError as error:
                raise InspectionError(unreadable(self.source)) from error

    def fetch(self, folder: ModelFolder, commit: str, file: ListedFile) -> None:
        blob, partial = folder.blobs / file.blob, folder.partial(file)
        shutil.copyfile(self._folder / file.path, partial)
        if digest_of(partial, "sha256") != file.sha256:
            partial.unlink()
            raise InspectionError(wrong_content(self.source, file.path, "SHA-256"))
        partial.replace(blob)
        folder.link(file, commit)

    def finish(self, folder: ModelFolder, revision: str | None, commit: str) -> None:
        """Nothing: engines get the path of the snapshot."""

    def failure(self, revision: str | None, error: Exception) -> Failure:  # noqa: ARG002 - there is no client
        return unreadable(f"{self.source}: {type(error).__name__}")
