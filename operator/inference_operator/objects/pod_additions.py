"""What users add to the engines' pods: refused where it would take the place of what is the operator's, else merged.

Every list that takes additions has one key that tells its items apart; nothing is ever merged into an item.
"""

from collections.abc import Iterator, Mapping, Sequence
from posixpath import normpath

from inference_operator.api.pod_template import EmptyDirVolume, Mount, PodTemplateSpec, Sidecar, Volume
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.manifest import GROUP, Manifest
from inference_operator.objects.api_form import api_form
from inference_operator.objects.compute_resources import refusal_of_resources, stated
from inference_operator.objects.names import ENGINE, labels
from inference_operator.objects.pod import RESTRICTED_CONTAINER, environment
from inference_operator.objects.quantity import canonical
from inference_operator.objects.scheduling import QUEUE_LABEL

_PATH = "spec.podTemplate"

_OWN_DOMAINS = (GROUP, "container.apparmor.security.beta.kubernetes.io", "seccomp.security.alpha.kubernetes.io")
"""The operator's own, and those by which Kubernetes once loosened a container's confinement."""

_OWN_KEYS: Mapping[str, str] = {
    **dict.fromkeys(labels("", ""), "Remove it; the operator finds its pods by it."),
    "pod-template-hash": "Remove it; Kubernetes tells rollouts apart by it.",
    QUEUE_LABEL: "Use `spec.scheduling.queueName`.",
}
"""Labels and annotations that are not the user's, and what to do instead."""


def refusal_of_additions(asked: PodTemplateSpec, own_mounts: Sequence[Manifest]) -> Refusal | None:
    """Why the additions cannot be merged, or None.

    Args:
        asked: what the user adds.
        own_mounts: the volume mounts of the engine as the operator makes it.
    """
    return next(_refusals(asked, own_mounts), None)


def _refusals(asked: PodTemplateSpec, own_mounts: Sequence[Manifest]) -> Iterator[Refusal]:
    for part, keys in (("labels", asked.labels), ("annotations", asked.annotations)):
        yield from (_taken(f"{part}[{key}]", f"`{key}`", cure) for key in keys if (cure := _cure_of_key(key)))
    own_volumes = {mount["name"] for mount in own_mounts}
    for volume in asked.volumes:
        if volume.name in own_volumes:
            yield _taken(f"volumes[{volume.name}]", f"the volume `{volume.name}`", "Give it another name.")
    yield from _wrong_mounts("volumeMounts", asked, asked.volume_mounts)
    for mount in asked.volume_mounts:
        if hidden := _hidden(mount, own_mounts):
            cure = "Mount it elsewhere, or below that path."
            yield _taken(f"volumeMounts[{mount.mount_path}]", f"`{hidden}`, which it would hide,", cure)
    for sidecar in asked.sidecars:
        path = f"sidecars[{sidecar.name}]"
        if sidecar.name == ENGINE:
            yield _taken(path, f"the container `{ENGINE}`", "Give it another name.")
        yield from _wrong_mounts(f"{path}.volumeMounts", asked, sidecar.volume_mounts)
        if refusal := refusal_of_resources(sidecar.resources, f"{_PATH}.{path}.resources"):
            yield refusal


def _cure_of_key(key: str) -> str | None:
    domain = key.rpartition("/")[0]
    if any(domain == own or domain.endswith(f".{own}") for own in _OWN_DOMAINS):
        return "Remove it."
    return _OWN_KEYS.get(key)


def _taken(field: str, what: str, cure: str) -> Refusal:
    return Refusal(Reason.INVALID_SPEC, f"{_PATH}.{field}", f"{what} is the operator's.", cure)


def _wrong_mounts(field: str, asked: PodTemplateSpec, mounts: Sequence[Mount]) -> Iterator[Refusal]:
    names = {volume.name for volume in asked.volumes}
    for mount in mounts:
        if mount.name not in names:
            where = f"{_PATH}.{field}[{mount.mount_path}]"
            cure = f"Add it to `{_PATH}.volumes`."
            yield Refusal(Reason.INVALID_SPEC, where, f"there is no volume `{mount.name}`.", cure)


def _hidden(mount: Mount, own_mounts: Sequence[Manifest]) -> str | None:
    path = f"/{normpath(mount.mount_path).strip('/')}/".replace("//", "/")
    return next((own["mountPath"] for own in own_mounts if f"{own['mountPath']}/".startswith(path)), None)


def volumes(asked: Sequence[Volume], *, pull_policy: str) -> list[Manifest]:
    """The volumes, beside the operator's."""
    return [_volume(volume, pull_policy) for volume in asked]


def _volume(asked: Volume, pull_policy: str) -> Manifest:
    if asked.empty_dir is not None:
        return {"name": asked.name, "emptyDir": _folder(asked.empty_dir)}
    if asked.image is not None:
        return {"name": asked.name, "image": {"reference": asked.image.reference, "pullPolicy": pull_policy}}
    return api_form(asked)


def _folder(asked: EmptyDirVolume) -> Manifest:
    size = {"sizeLimit": canonical(asked.size_limit)} if asked.size_limit else {}
    return {**api_form(asked), **size}


def mounts(asked: Sequence[Mount]) -> list[Manifest]:
    """The mounts, beside the operator's."""
    return [api_form(mount) for mount in asked]


def sidecars(asked: Sequence[Sidecar], *, pull_policy: str) -> list[Manifest]:
    """Containers that Kubernetes starts before the engine and stops after it (sidecar containers, since 1.29)."""
    return [_sidecar(one, pull_policy) for one in asked]


def _sidecar(asked: Sidecar, pull_policy: str) -> Manifest:
    built: Manifest = {
        "name": asked.name,
        "image": asked.image,
        "imagePullPolicy": pull_policy,
        "restartPolicy": "Always",
        "command": list(asked.command),
        "args": list(asked.args),
        "env": environment(asked.env),
        "resources": stated(asked.resources),
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(asked.volume_mounts),
    }
    return {name: value for name, value in built.items() if value}
