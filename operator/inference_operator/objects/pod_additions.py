"""Additions to engine and router pods: labels, annotations, volumes, mounts and sidecars.

An addition that would replace something of the operator's is refused. Others are appended to the lists of the pod
template; no item of the operator's is changed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath

from inference_operator.api.pod_template import AddedContainer, EnvironmentFrom, Mount, PodTemplateSpec, Volume
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.manifest import GROUP, Manifest
from inference_operator.objects.compute_resources import refusal_of_resources, stated
from inference_operator.objects.container import environment
from inference_operator.objects.names import labels
from inference_operator.objects.pod import RESTRICTED_CONTAINER
from inference_operator.objects.scheduling import QUEUE_LABEL, api_form
from inference_operator.quantity import canonical
from inference_operator.views.pod import POD_INDEX_LABEL

_OWN_DOMAINS = (GROUP, "container.apparmor.security.beta.kubernetes.io", "seccomp.security.alpha.kubernetes.io")
"""Domains of keys that users cannot set: the operator's own, and those of former annotations that weaken a container's
confinement."""

_OWN_KEYS: Mapping[str, str] = {
    **dict.fromkeys(labels("", ""), "Remove it; the operator selects its pods by it."),
    "pod-template-hash": "Remove it; Deployments set it.",
    POD_INDEX_LABEL: "Remove it; StatefulSets set it.",
    QUEUE_LABEL: "Use `spec.scheduling.queueName`.",
}
"""Labels and annotations that users cannot set, and what to do instead."""


@dataclass(frozen=True, slots=True)
class ReservedPodParts:
    path: str
    """Path of the additions in the resource or in the settings, for messages."""
    containers: Collection[str]
    """Names of the main containers."""
    mounts: Sequence[Manifest]


def refusal_of_additions(requested: PodTemplateSpec, own: ReservedPodParts) -> Refusal | None:
    return next(_refusals(requested, own), None)


def refusal_of_keys(keys: Iterable[str], path: str) -> Refusal | None:
    cures = ((key, _cure_of_key(key)) for key in keys)
    return next((_reserved(f"{path}[{key}]", f"`{key}`", cure) for key, cure in cures if cure), None)


def _refusals(requested: PodTemplateSpec, own: ReservedPodParts) -> Iterator[Refusal]:
    path, own_mounts = own.path, own.mounts
    for part, keys in (("labels", requested.labels), ("annotations", requested.annotations)):
        if refusal := refusal_of_keys(keys, f"{path}.{part}"):
            yield refusal
    own_volumes = {mount["name"] for mount in own_mounts}
    for volume in requested.volumes:
        if volume.name in own_volumes:
            yield _reserved(f"{path}.volumes[{volume.name}]", f"the volume `{volume.name}`", "Give it another name.")
    yield from _wrong_mounts(path, "volumeMounts", requested, requested.volume_mounts)
    for mount in requested.volume_mounts:
        if hidden := _hidden_path(mount, own_mounts):
            problem = f"it would hide `{hidden}`, which is reserved for the operator."
            cure = "Mount it elsewhere, or below that path."
            yield Refusal(Reason.INVALID_SPEC, f"{path}.volumeMounts[{mount.mount_path}]", problem, cure)
    yield from _wrong_containers(requested, own)


def _wrong_containers(requested: PodTemplateSpec, own: ReservedPodParts) -> Iterator[Refusal]:
    taken = set(own.containers)
    for field, containers in (("initContainers", requested.init_containers), ("sidecars", requested.sidecars)):
        for container in containers:
            name = f"{field}[{container.name}]"
            if container.name in taken:
                what = f"the container `{container.name}`"
                yield _reserved(f"{own.path}.{name}", what, "Give it another name.")
            taken.add(container.name)
            yield from _wrong_mounts(own.path, f"{name}.volumeMounts", requested, container.volume_mounts)
            if refusal := refusal_of_resources(container.resources, f"{own.path}.{name}.resources"):
                yield refusal


def _cure_of_key(key: str) -> str | None:
    domain = key.rpartition("/")[0]
    if any(domain == own or domain.endswith(f".{own}") for own in _OWN_DOMAINS):
        return "Remove it."
    return _OWN_KEYS.get(key)


def _reserved(field: str, what: str, cure: str) -> Refusal:
    return Refusal(Reason.INVALID_SPEC, field, f"{what} is reserved for the operator.", cure)


def _wrong_mounts(path: str, field: str, requested: PodTemplateSpec, mounts: Sequence[Mount]) -> Iterator[Refusal]:
    names = {volume.name for volume in requested.volumes}
    for mount in mounts:
        if mount.name not in names:
            where = f"{path}.{field}[{mount.mount_path}]"
            cure = f"Add it to `{path}.volumes`."
            yield Refusal(Reason.INVALID_SPEC, where, f"there is no volume `{mount.name}`.", cure)


def _hidden_path(mount: Mount, own_mounts: Sequence[Manifest]) -> str | None:
    path = f"/{normpath(mount.mount_path).strip('/')}/".replace("//", "/")
    return next((own["mountPath"] for own in own_mounts if f"{own['mountPath']}/".startswith(path)), None)


def volumes(requested: Sequence[Volume], *, pull_policy: str) -> list[Manifest]:
    return [_volume(volume, pull_policy) for volume in requested]


def _volume(volume: Volume, pull_policy: str) -> Manifest:
    if volume.empty_dir is not None:
        limit = volume.empty_dir.size_limit
        size = {"sizeLimit": canonical(limit)} if limit else {}
        return {"name": volume.name, "emptyDir": {**api_form(volume.empty_dir), **size}}
    if volume.image is not None:
        return {"name": volume.name, "image": {"reference": volume.image.reference, "pullPolicy": pull_policy}}
    return api_form(volume)


def mounts(requested: Sequence[Mount]) -> list[Manifest]:
    return [api_form(mount) for mount in requested]


def init_containers(added: PodTemplateSpec, *, pull_policy: str) -> Manifest:
    """The field with the init containers, and then the sidecars; without it if there are none.

    Kubernetes starts a sidecar before the engine and stops it after it (since Kubernetes 1.29). It expands `$(NAME)` in
    both, as in any container: who adds them may create pods.
    """
    first = [_container(container, pull_policy) for container in added.init_containers]
    sidecars = [{**_container(sidecar, pull_policy), "restartPolicy": "Always"} for sidecar in added.sidecars]
    return {"initContainers": [*first, *sidecars]} if first or sidecars else {}


def env_from(requested: Sequence[EnvironmentFrom]) -> Manifest:
    """The field of a container with variables of whole Secrets and ConfigMaps; without it if there are none."""
    return {"envFrom": [api_form(source) for source in requested]} if requested else {}


def _container(added: AddedContainer, pull_policy: str) -> Manifest:
    container: Manifest = {
        "name": added.name,
        "image": added.image,
        "imagePullPolicy": pull_policy,
        "command": list(added.command),
        "args": list(added.args),
        "env": environment(added.env),
        **env_from(added.env_from),
        "resources": stated(added.resources),
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(added.volume_mounts),
    }
    return {name: value for name, value in container.items() if value}
