"""Copies an adapter to a claim and reads what it is: its config, and the header of its weights."""

import json
from pathlib import Path

from inference_operator.jobs.adapter_result import StoredAdapter
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import Manifest
from inference_operator.model_files.claim import ModelFolder, Say
from inference_operator.model_files.download import ModelOrigin, download
from inference_operator.model_files.files import LENGTH_BYTES, MAX_HEADER_BYTES
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
    """A dimension or an offset; raises ValueError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_SIZE:
        raise ValueError("a dimension or an offset that is none")
    return value
