"""A pod with a vLLM container, as fields of an InferenceDeployment."""

import re
import shlex
from collections.abc import Sequence

from inference_operator.api.adapters import CLAIM_SCHEME
from inference_operator.api.engine import EngineSpec
from inference_operator.api.model import HUB_TOKEN
from inference_operator.cli.import_.origin import OPERATOR_SETS, Draft, ForeignObject, Path
from inference_operator.engines.options import ImportedArguments
from inference_operator.engines.registry import ENGINES, VLLM
from inference_operator.hardware.kinds import kind_of_product
from inference_operator.hardware.node_labels import PRODUCT
from inference_operator.hardware.resources import is_gpu
from inference_operator.manifest import Manifest
from inference_operator.settings import Settings
from inference_operator.views.raw import mapping, objects

SERVERS = (
    ["vllm", "serve"],
    ["-m", "vllm.entrypoints.openai.api_server"],
    ["-m", "vllm.entrypoints.cli.main", "serve"],
)
"""The ends of commands that start vLLM's server (vLLM 0.32 documentation, "OpenAI-compatible server")."""
_SHELL_WORDS = re.compile(r"[;&|<>`$()]")
HUB_TOKENS = frozenset({HUB_TOKEN, "HUGGING_FACE_HUB_TOKEN"})
HUB_CACHE = "/root/.cache/huggingface"
"""Where vLLM's image keeps models (vLLM 0.32 documentation, "Using Docker")."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a path in another pod
SCHEDULING = ("tolerations", "affinity", "priorityClassName", "runtimeClassName", "schedulerName")
SET_BY_OPERATOR = (
    *("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext"),
    *("terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "name"),
)
POD_SET_BY_OPERATOR = (
    *("securityContext", "terminationGracePeriodSeconds", "restartPolicy", "dnsPolicy"),
    *("automountServiceAccountToken", "enableServiceLinks", "serviceAccount"),
)
_VOLUMES = ("persistentVolumeClaim", "configMap", "emptyDir", "image", "secret", "csi")


def is_vllm(container: Manifest) -> bool:
    """Whether a container runs vLLM.

    Examples:
        >>> is_vllm({"image": "vllm/vllm-openai:v0.32.0"}), is_vllm({"command": ["nginx"]})
        (True, False)
    """
    words = [str(container.get("image") or ""), *_words(container.get("command")), *_words(container.get("args"))]
    return any("vllm" in word for word in words)


def serve_arguments(command: Sequence[str], args: Sequence[str]) -> list[str] | None:
    """The arguments of vLLM's server; None if the command is one that cannot be read."""
    words = [*command, *args]
    if len(words) > 2 and words[1] in {"-c", "-lc", "-ec"} and "sh" in words[0]:  # noqa: PLR2004 - shell, -c and text
        text = words[2].strip().removeprefix("exec ").replace("\\\n", " ")
        if len(words) > 3 or _SHELL_WORDS.search(text) or "\n" in text:  # noqa: PLR2004 - as above
            return None
        try:
            words = shlex.split(text)
        except ValueError:
            return None
        command = words
    if not command:
        return words
    for server in SERVERS:
        for start in range(len(words) - len(server) + 1):
            if [words[start].rpartition("/")[2], *words[start + 1 : start + len(server)]] == server:
                return words[start + len(server) :]
    return None


def take_container(origin: ForeignObject, draft: Draft, path: Path, pod: Path) -> ImportedArguments | None:
    command, args = (_words(origin.look(list, *path, part)) for part in ("command", "args"))
    found = serve_arguments(command, args)
    if found is None:
        why = "no `vllm serve` with plain arguments could be read from it: write `spec.engine.args` by hand."
        for part in ("command", "args"):
            origin.leave(why, *path, part)
    else:
        origin.take(list, *path, "command")
        origin.take(list, *path, "args")
    if image := origin.take(str, *path, "image"):
        draft.put("engine.image", image)
    for part in SET_BY_OPERATOR:
        origin.leave(OPERATOR_SETS, *path, part)
    _take_environment(origin, draft, (*path, "env"))
    if sources := origin.take(list, *path, "envFrom"):
        draft.put("podTemplate.envFrom", sources)
    _take_resources(origin, draft, (*path, "resources"))
    _take_volumes(origin, draft, path, pod)
    return None if found is None else put_arguments(draft, found)


def put_arguments(draft: Draft, words: Sequence[str]) -> ImportedArguments:
    found = ENGINES[VLLM].imported(words)
    for field, value in found.fields.items():
        draft.put(field, value)
    draft.put("engine.args", [*mapping(draft.spec, "engine").get("args", ()), *found.kept])
    draft.notes += [(f"argument {name}", why) for name, why in found.left]
    return found


def take_pod(origin: ForeignObject, draft: Draft, pod: Path, engine: int | None) -> None:
    """Take over a pod but its containers; those besides the engine's are left."""
    for part in SCHEDULING:
        kind: type[object] = str if part.endswith("Name") else object
        draft.put(f"scheduling.{part}", origin.take(kind, *pod, part))
    if selector := origin.take(dict, *pod, "nodeSelector"):
        product = kind_of_product(str(selector.get(PRODUCT) or ""))
        others = {key: value for key, value in selector.items() if key != PRODUCT or not product}
        draft.put("hardware.gpu.products", [product.name] if product else None)
        draft.put("scheduling.nodeSelector", others)
    for part in ("serviceAccountName", "imagePullSecrets"):
        draft.put(f"podTemplate.{part}", origin.take(object, *pod, part))
    for part in POD_SET_BY_OPERATOR:
        origin.leave(OPERATOR_SETS, *pod, part)
    origin.leave("write them into `spec.podTemplate.initContainers` by hand.", *pod, "initContainers")
    for at in range(len(origin.look(list, *pod, "containers") or ())):
        if at != engine:
            origin.leave("write it into `spec.podTemplate.sidecars` by hand.", *pod, "containers", at)


def put_model(draft: Draft, model: str, where: str) -> None:
    """Write the source of a model that vLLM got as a repository or, on a claim that the draft mounts, as a path."""
    if not model:
        draft.notes.append((where, "it names no model: set `spec.model.source`."))
    elif model.startswith("/"):
        source = _on_claim(draft, model)
        draft.put("model.source", source)
        if not source:
            draft.notes.append((where, "its model is a path in the image or a volume: set `spec.model.source`."))
    else:
        draft.put("model.source", model if "://" in model else f"hf://{model}")


def _on_claim(draft: Draft, path: str) -> str:
    """The path as a source on a claim; its mount leaves the draft, since the operator mounts models itself."""
    template = mapping(draft.spec, "podTemplate")
    for mount in objects(template, "volumeMounts"):
        at = str(mount.get("mountPath") or "").rstrip("/")
        volume = next((one for one in objects(template, "volumes") if one.get("name") == mount.get("name")), {})
        claim = mapping(volume, "persistentVolumeClaim").get("claimName")
        if claim and at and (path == at or path.startswith(f"{at}/")):
            _remove_mount(draft, template, mount, volume)
            inner = "/".join(part for part in (str(mount.get("subPath") or ""), path[len(at) :].strip("/")) if part)
            return f"{CLAIM_SCHEME}{claim}/{inner}".rstrip("/")
    return ""


def _remove_mount(draft: Draft, template: Manifest, mount: Manifest, volume: Manifest) -> None:
    """Remove a mount of a model, and its volume if nothing else mounts it; what else they say is noted."""
    template["volumeMounts"].remove(mount)
    if not any(one.get("name") == mount.get("name") for one in template["volumeMounts"]):
        template["volumes"].remove(volume)
    for part in ("volumeMounts", "volumes"):
        if not template[part]:
            del template[part]
    if not template:
        del draft.spec["podTemplate"]
    claim = mapping(volume, "persistentVolumeClaim")
    extra = {*mount, *volume, *claim} - {"name", "mountPath", "subPath", "persistentVolumeClaim", "claimName"}
    draft.notes += [(f"volume {mount.get('name')}: {one}", OPERATOR_SETS) for one in sorted(map(str, extra))]


def _take_environment(origin: ForeignObject, draft: Draft, path: Path) -> None:
    kept: list[Manifest] = list(mapping(draft.spec, "engine").get("env") or ())
    for index, one in enumerate(origin.look(list, *path) or ()):
        name = str(one.get("name") or "") if isinstance(one, dict) else ""
        secret = mapping(one, "valueFrom", "secretKeyRef") if name else {}
        if name in HUB_TOKENS and secret.get("name"):
            reference = {"name": secret["name"], "key": str(secret.get("key") or HUB_TOKEN)}
            draft.put("model.tokenSecretRef", reference)
            origin.take(str, *path, index, "name")
            for part in ("name", "key"):
                origin.take(str, *path, index, "valueFrom", "secretKeyRef", part)
        elif name in HUB_TOKENS:
            origin.leave("a token belongs into a Secret: name it in `spec.model.tokenSecretRef`.", *path, index)
        elif why := _why_no_variable(one):
            origin.leave(why, *path, index)
        else:
            kept.append(one)
            origin.take(dict, *path, index)
    draft.put("engine.env", kept)


def _why_no_variable(one: object) -> str:
    try:
        spec = EngineSpec.model_validate({"env": [one]})
    except ValueError:
        return "`spec.engine.env` has no variable of this form."
    refusal = ENGINES[VLLM].check(spec, image="", settings=Settings())
    return refusal.cure if refusal else ""


def _take_resources(origin: ForeignObject, draft: Draft, path: Path) -> None:
    computed = "the number of GPUs is computed: `spec.parallelism.tensor` sets it."
    for kind in ("requests", "limits"):
        kept = {}
        for name in origin.look(dict, *path, kind) or ():
            if name in {"cpu", "memory", "ephemeral-storage"}:
                value = origin.take(object, *path, kind, name)
                kept[name] = str(value)
            elif is_gpu(str(name)):
                origin.leave(computed, *path, kind, name)
        draft.put(f"engine.resources.{kind}", kept)


def _take_volumes(origin: ForeignObject, draft: Draft, container: Path, pod: Path) -> None:
    """Take over mounts with their volumes; what the operator mounts itself is left."""
    volumes = {str(one.get("name")): (at, one) for at, one in _indexed(origin, (*pod, "volumes"))}
    mounts, used = [], {}
    for at, mount in _indexed(origin, (*container, "volumeMounts")):
        place, name = str(mount.get("mountPath") or "").rstrip("/"), str(mount.get("name"))
        index, volume = volumes.get(name, (-1, {}))
        claim = mapping(volume, "persistentVolumeClaim").get("claimName")
        if place == SHARED_MEMORY:
            origin.leave("the operator mounts shared memory.", *container, "volumeMounts", at)
            origin.leave("the operator mounts shared memory.", *pod, "volumes", index)
        elif claim and place.startswith(HUB_CACHE):
            draft.put("cache.claimName", claim)
            for part in ("name", "mountPath"):
                origin.take(str, *container, "volumeMounts", at, part)
            origin.take(str, *pod, "volumes", index, "name")
            origin.take(str, *pod, "volumes", index, "persistentVolumeClaim", "claimName")
        elif any(kind in volume for kind in _VOLUMES):
            mounts.append(origin.take(dict, *container, "volumeMounts", at))
            used[name] = _volume(origin.take(dict, *pod, "volumes", index) or {})
    draft.put("podTemplate.volumeMounts", mounts)
    draft.put("podTemplate.volumes", list(used.values()))


def _volume(volume: Manifest) -> Manifest:
    return {
        key: {name: part for name, part in value.items() if name != "defaultMode"} if isinstance(value, dict) else value
        for key, value in volume.items()
    }


def _indexed(origin: ForeignObject, path: Path) -> list[tuple[int, Manifest]]:
    return [(at, one) for at, one in enumerate(origin.look(list, *path) or ()) if isinstance(one, dict)]


def _words(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
