"""Which models and compiled kernels of a claim are in use, from the objects of its namespace."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.api.refusal import Refusal
from inference_operator.jobs.download_result import CLAIM_KEY, DRAFT_KEY, MODEL_KEY, RESULT_FILE
from inference_operator.jobs.placement import mounted_claims
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest
from inference_operator.models.checkpoint import GGUF
from inference_operator.models.source import COMMIT, DOWNLOADED, HUB_SCHEME, REPOSITORY, model_source, stored_name
from inference_operator.objects.cache_volume import COMPILED_FOLDER, model_of_folder
from inference_operator.objects.names import MANAGED_BY_LABEL, MANAGER, NAME_LABEL, cache_claim_name
from inference_operator.views.raw import mapping, objects

COMMAND = "infd"
"""The manager of the objects of `infd`. The operator leaves them alone, since no resource owns them."""
_OTHER_SCHEMES = ("pvc://", "oci://")
"""Models that are never on the claim."""
ANY = "*"
"""The repository or kernels of a use of which nothing is known: they may be any."""
_FILE = re.compile(r".*\.(?:cfg|conf|ipynb|json|py|sh|toml|txt|ya?ml)", re.ASCII)
"""Words that have the form of a repository, but name a file."""
_FOLDER = re.compile(
    r"(?<![\w-])(?P<folder>(?:models|s3)--[A-Za-z0-9](?:[\w.+-]*\w)?)(?=[/\s\"',;:)]|$)"
    r"(?:/snapshots/(?P<commit>[0-9a-f]{40})(?![\w.-]))?",
    re.ASCII,
)
"""A model's folder on the claim in a path, wherever the claim is mounted, and the commit of a snapshot in it."""
_FOLDER_START = re.compile(r"(?<![\w-])(?:models|s3)--")
"""Where such a folder's name begins, also if a pattern or a variable follows."""
_KERNELS_ARGUMENT = "--kernels="


@dataclass(frozen=True, slots=True, order=True)
class Use:
    repository: str
    """`org/name`, `s3://bucket/path`, or `ANY`."""
    commit: str = ""
    """Empty if the object may use any commit."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Uses:
    models: tuple[Use, ...] = ()
    kernels: frozenset[str] = frozenset()
    adapters: tuple[Use, ...] | None = None
    """Uses of LoRA adapters by the names of their sources; None: nothing is known, and all adapters stay."""


def claim_of(resource: Manifest) -> str:
    """The claim of a resource's `spec.cache`, also if its specification is invalid; empty without one.

    Examples:
        >>> claim_of({"metadata": {"name": "qwen"}, "spec": {"cache": {}}}), claim_of({"metadata": {"name": "qwen"}})
        ('qwen-cache', '')
    """
    spec = mapping(resource, "spec")
    if not isinstance(cache := spec.get("cache"), dict):
        return ""
    return str(cache.get("claimName") or "") or cache_claim_name(resource["metadata"]["name"])


def repository_of(source: object) -> str:
    """The model of an `hf://` or `s3://` source; empty for any other.

    Examples:
        >>> repository_of("hf://org/name"), repository_of("pvc://a/b"), repository_of(None)
        ('org/name', '', '')
        >>> repository_of("hf://org/name/Q4/a.gguf")
        'org/name'
        >>> repository_of("s3://bucket/a/"), repository_of("s3://bucket/a/../b")
        ('s3://bucket/a', '')
    """
    model = model_source(source) if isinstance(source, str) else None
    return stored_name(model) if isinstance(model, DOWNLOADED) else ""


def claim_uses(
    claim: str, resources: Sequence[Manifest], workloads: Sequence[Manifest], records: Sequence[Manifest]
) -> Uses:
    """The models and kernels in use on a claim. An unclear commit means every commit of the repository.

    Args:
        workloads: Deployments, StatefulSets, Jobs and pods of its namespace.
        records: the operator's ConfigMaps of finished downloads.
    """
    own = [resource for resource in resources if claim_of(resource) == claim]
    uses = {use for resource in own for use in _of_resource(resource, claim, records)}
    kernels: set[str] = set()
    for workload in workloads:
        pod = pod_of(workload)
        volumes = {name for name, mounted in mounted_claims(pod).items() if mounted == claim}
        if volumes and not _has_ended(workload):
            uses.update(_of_pod(pod, workload, volumes))
            kernels.update(_kernels(pod, volumes))
            unclear = any(_is_unclear(container, workload, volumes) for container in _containers(pod))
            kernels.update({ANY} if unclear else ())
    adapters = {use for use in uses if use.repository == ANY}.union(*map(_adapters_of, own))
    return Uses(tuple(sorted(uses)), frozenset(kernels), tuple(sorted(adapters)))


def keep_arguments(uses: Uses) -> tuple[str, ...]:
    models = (f"--keep={use.repository}{f'@{use.commit}' if use.commit else ''}={use.by}" for use in uses.models)
    kernels = (f"--keep-kernels={key}" for key in sorted(uses.kernels))
    adapters = (f"--keep-adapter={use.repository}={use.by}" for use in uses.adapters or ())
    return (*models, *kernels, *(() if uses.adapters is None else ("--adapters", *adapters)))


def parsed_adapter_use(text: str) -> Use:
    """The use in the value of one `--keep-adapter`. A source may have `@` and `:`."""
    source, _, by = text.partition("=")
    return Use(source, "", by)


def parsed_use(text: str) -> Use:
    """The use in the value of one `--keep`.

    Examples:
        >>> parsed_use("a/c@1234=Pod x"), parsed_use("a/b")
        (Use(repository='a/c', commit='1234', by='Pod x'), Use(repository='a/b', commit='', by=''))
    """
    model, _, by = text.partition("=")
    repository, _, commit = model.partition("@")
    return Use(repository, commit, by)


def _of_resource(resource: Manifest, claim: str, records: Sequence[Manifest]) -> Iterator[Use]:
    name, model = resource["metadata"]["name"], mapping(resource, "spec", "model")
    repository, by = repository_of(model.get("source")), f"{INFERENCE_DEPLOYMENT.name} {name}"
    own = [record for record in records if _is_of(record, name, claim)]
    drafts = {repository_of(mapping(resource, "spec", "engine", "speculative").get("model"))}
    drafts |= {str(mapping(record, "data").get(DRAFT_KEY) or "") for record in own}
    yield from (Use(draft, "", by) for draft in sorted(drafts) if draft)
    if not repository:
        if not str(model.get("source")).startswith(_OTHER_SCHEMES):
            yield Use(ANY, "", by)  # an invalid source, or one of a later release
        return
    revision = str(model.get("revision") or "")
    if COMMIT.fullmatch(revision):
        yield Use(repository, revision, by)
        return
    commits = {record_commit(record) for record in own if record_model(record) == repository}
    if revision or not commits or "" in commits:
        yield Use(repository, "", by)  # a branch may have moved since
    else:
        yield from (Use(repository, commit, by) for commit in commits)


def _is_of(record: Manifest, name: str, claim: str) -> bool:
    labels = mapping(record["metadata"], "labels")
    return (labels.get(NAME_LABEL), labels.get(MANAGED_BY_LABEL), record_claim(record)) == (name, MANAGER, claim)


def _adapters_of(resource: Manifest) -> Iterator[Use]:
    """The adapters of a resource, each with all its commits; `ANY` for a source that cannot be read."""
    by = f"{INFERENCE_DEPLOYMENT.name} {resource['metadata']['name']}"
    for adapter in objects(mapping(resource, "spec", "model"), "adapters"):
        source = model_source(str(adapter.get("source")))
        yield Use(ANY if isinstance(source, Refusal) else stored_name(source), "", by)


def record_model(record: Manifest) -> str:
    return repository_of(mapping(record, "data").get(MODEL_KEY))


def record_claim(record: Manifest) -> str:
    return str(mapping(record, "data").get(CLAIM_KEY) or "")


def record_commit(record: Manifest) -> str:
    match = COMMIT.search(str(mapping(record, "data").get(RESULT_FILE) or ""))
    return match[0] if match else ""


def _of_pod(pod: Manifest, workload: Manifest, volumes: set[str]) -> Iterator[Use]:
    by = f"{workload.get('kind') or 'Pod'} {workload['metadata']['name']}"
    for container in _containers(pod):
        words = list(_words(container))
        yield from (Use(model, commit, by) for model, commit in _folders(words))
        commits = sorted({word for word in words if COMMIT.fullmatch(word)}) or [""]
        yield from (Use(repository, commit, by) for repository in _repositories(words) for commit in commits)
        if _is_unclear(container, workload, volumes):
            yield Use(ANY, "", by)  # such as a notebook


def _repositories(words: Sequence[str]) -> set[str]:
    hub = {word for word in words if REPOSITORY.fullmatch(word) and not _FOLDER_START.search(word)}
    of_files = {repository_of(f"{HUB_SCHEME}{word}") for word in words if word.endswith(GGUF)}
    return (hub | of_files | {repository_of(word) for word in words}) - {""}


def _folders(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The models whose folders words name, with the commit of the snapshot; `ANY` for a folder that is not clear."""
    for word in words:
        matches = list(_FOLDER.finditer(word))
        yield from ((model_of_folder(match["folder"]), match["commit"] or "") for match in matches)
        if len(_FOLDER_START.findall(word)) != len(matches):
            yield ANY, ""


def _is_unclear(container: Manifest, workload: Manifest, volumes: set[str]) -> bool:
    """Whether it may use anything on the claim: a container of others that mounts it and names no model.

    Objects of the operator and of `infd` name the models and kernels that they use.
    """
    if mapping(workload["metadata"], "labels").get(MANAGED_BY_LABEL) in (MANAGER, COMMAND):
        return False
    words = list(_words(container))
    named = any(True for _ in _folders(words)) or not all(map(_FILE.fullmatch, _repositories(words)))
    return not named and any(mount.get("name") in volumes for mount in objects(container, "volumeMounts"))


def _words(container: Manifest) -> Iterator[str]:
    for part in ("command", "args"):
        listed = container.get(part)
        for text in listed if isinstance(listed, list) else ():
            yield from (word.removeprefix(HUB_SCHEME) for word in re.split(r"[\s=\"']+", str(text)))
    for variable in objects(container, "env"):
        yield str(variable.get("value") or "").removeprefix(HUB_SCHEME)
    for mount in objects(container, "volumeMounts"):
        paths = (str(mount.get(part) or "") for part in ("subPath", "subPathExpr"))
        yield from (path for path in paths if _FOLDER_START.search(path))


def _kernels(pod: Manifest, volumes: set[str]) -> Iterator[str]:
    for container in _containers(pod):
        for mount in objects(container, "volumeMounts"):
            folder, _, key = str(mount.get("subPath") or "").partition("/")
            if mount.get("name") in volumes and folder == COMPILED_FOLDER and key:
                yield key
        arguments = container.get("args")
        for text in arguments if isinstance(arguments, list) else ():
            if str(text).startswith(_KERNELS_ARGUMENT):
                yield str(text).removeprefix(_KERNELS_ARGUMENT)


def _containers(pod: Manifest) -> Iterator[Manifest]:
    yield from objects(pod, "initContainers")
    yield from objects(pod, "containers")


def pod_of(workload: Manifest) -> Manifest:
    spec = mapping(workload, "spec")
    return mapping(spec, "template", "spec") if "template" in spec else spec


def _has_ended(workload: Manifest) -> bool:
    """Whether it is a Job or pod that is over, which uses nothing any more."""
    status = mapping(workload, "status")
    ends = {item.get("type") for item in objects(status, "conditions") if item.get("status") == "True"}
    return status.get("phase") in ("Succeeded", "Failed") or bool(ends & {"Complete", "Failed"})
