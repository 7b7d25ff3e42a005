"""Parses `spec.model.source`: `hf://org/name`, `s3://bucket/path`, `pvc://claim/path` or `oci://image-reference`.

A path that ends in `.gguf` names one of several models in GGUF: its only or first file.
"""

import re
from dataclasses import dataclass, replace
from typing import TypeAlias

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal

HUB_SCHEME = "hf://"


@dataclass(frozen=True, slots=True)
class HubModel:
    repository: str
    file: str = ""
    """Path of a GGUF file in it, the first of several parts; empty for the model at its root."""


@dataclass(frozen=True, slots=True)
class BucketModel:
    """A folder in a bucket of S3 or a compatible store, which a Job downloads to the claim of `spec.cache`."""

    bucket: str
    path: str
    """Keys of the files without their last part; empty for the whole bucket."""
    file: str = ""
    """Name of a GGUF file in it, the first of several parts; empty for the only model in it."""

    @property
    def name(self) -> str:
        return f"s3://{self.bucket}/{self.path}".removesuffix("/")


@dataclass(frozen=True, slots=True)
class ClaimModel:
    claim: str
    path: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class ImageModel:
    """An OCI image with the model's files at its root, mounted as an image volume (Kubernetes 1.36)."""

    reference: str

    @property
    def is_pinned(self) -> bool:
        """Whether a digest names it. A tag can name another image tomorrow."""
        return "@" in self.reference


ModelSource: TypeAlias = HubModel | BucketModel | ClaimModel | ImageModel
DOWNLOADED = (HubModel, BucketModel)
"""Models that come over the network in a revision. The others are volumes."""
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
"""A commit of a hub repository, or the digest of a bucket's listing."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Names of buckets (Amazon S3 user guide, "General purpose bucket naming rules")."""
_PATH_PART = re.compile(r"[\w.+-]+", re.ASCII)
"""A folder in a bucket or claim. It becomes a part of arguments, paths and messages, and needs no other character."""
_FILE = ".gguf"
"""Ends the name of a file that is a whole model, or its first part."""
MAX_CLAIM_PATH = 512
"""Characters of the path, as of a `subPath` in `podTemplate.volumeMounts`."""
MAX_BUCKET_PATH = 160
"""Characters of the path: with the bucket it becomes the name of one folder, which has at most 255."""
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_IMAGE = re.compile(
    r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9._-]+)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?", re.ASCII
)
MAX_SHOWN = 200
"""Characters of a source that a message repeats: a condition must stay readable."""


def file_of(source: ModelSource) -> str:
    """The GGUF file that a source names, as a path in its repository or folder; empty if it names none."""
    return "" if isinstance(source, ImageModel) else source.file


def is_downloaded(source: ModelSource) -> bool:
    return isinstance(source, DOWNLOADED)


def repository_of(source: ModelSource) -> str:
    return source.repository if isinstance(source, HubModel) else ""


def stored_name(source: ModelSource) -> str:
    """The name by which folders of a claim are named: of a hub without its scheme.

    Examples:
        >>> stored_name(HubModel("org/name")), stored_name(ClaimModel("models", "a")), stored_name(ImageModel("a.b/c"))
        ('org/name', 'pvc://models/a', 'oci://a.b/c')
    """
    match source:
        case HubModel(repository, _):
            return repository
        case BucketModel():
            return source.name
        case ClaimModel(claim, path, _):
            return f"pvc://{claim}/{path}".removesuffix("/")
        case ImageModel(reference):
            return f"oci://{reference}"


def model_source(text: str, field: str = "spec.model.source") -> ModelSource | Refusal:
    source = _parsed(text)
    return replace(source, field=field) if isinstance(source, Refusal) else source


def _parsed(text: str) -> ModelSource | Refusal:
    scheme, _, rest = text.partition("://")
    match scheme:
        case "hf":
            return _hub(text, rest)
        case "s3":
            return _in_folder(BucketModel, _BUCKET, MAX_BUCKET_PATH, text, "names no bucket")
        case "pvc":
            return _in_folder(ClaimModel, _CLAIM, MAX_CLAIM_PATH, text, "names no PersistentVolumeClaim")
        case "oci":
            return ImageModel(rest) if _IMAGE.fullmatch(rest) else _refusal(text, "names no image")
        case _:
            return _refusal(text, "has no scheme that this version knows")


def _hub(text: str, rest: str) -> ModelSource | Refusal:
    parts = rest.split("/")
    repository, path = "/".join(parts[:2]), "/".join(parts[2:])
    if not REPOSITORY.fullmatch(repository) or (len(parts) > 2 and not path.endswith(_FILE)):  # noqa: PLR2004 - org and name
        return _refusal(text, "names no repository `org/name`, nor a file `org/name/FILE.gguf` of one")
    problem = _problem_of_path(path, MAX_CLAIM_PATH)
    return _refusal(text, problem) if problem else HubModel(repository, path)


def _in_folder(
    model: type[BucketModel | ClaimModel], names: re.Pattern[str], longest: int, text: str, unnamed: str
) -> ModelSource | Refusal:
    name, _, path = text.partition("://")[2].partition("/")
    if problem := _problem_of_path(path, longest) if names.fullmatch(name) else unnamed:
        return _refusal(text, problem)
    folder, file = path.removesuffix("/"), ""
    if path.endswith(_FILE):
        folder, _, file = path.rpartition("/")
    return model(name, folder, file)


def _problem_of_path(path: str, longest: int) -> str:
    """The problem of a folder's path, as words after the source; empty if there is none."""
    if len(path) > longest:
        return f"has a path with more than {longest} characters"
    parts = path.removesuffix("/").split("/")
    if path and any(part in (".", "..") or not _PATH_PART.fullmatch(part) for part in parts):
        return "has a path with other characters than letters, digits and `._+-`, or with an empty, `.` or `..` part"
    return ""


def _refusal(text: str, problem: str) -> Refusal:
    shown = f"`{text}`" if text.isprintable() and len(text) <= MAX_SHOWN else "It"
    return Refusal(
        Reason.INVALID_MODEL_SOURCE,
        "spec.model.source",
        f"{shown} {problem}.",
        "Write for example `hf://Qwen/Qwen3-8B`, `s3://models/qwen3-8b`, `pvc://models/qwen3-8b` or"
        " `oci://ghcr.io/org/qwen3-8b:1`.",
    )
