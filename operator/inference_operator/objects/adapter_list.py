"""The ConfigMap with the list of adapters: which ones engines load, and which ones routers advertise.

The kubelet brings a new content to pods that mount it when it next looks at them, about once a minute. A change of a
pod makes it look at once (Kubernetes 1.36, pkg/kubelet/kubelet.go, `HandlePodUpdates`). So the operator writes the hash
of the content to an annotation of the pods.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from inference_operator.manifest import CONFIG_MAP, Manifest, Owner, Ref
from inference_operator.objects.child import child
from inference_operator.objects.names import ADAPTER, adapter_list_name
from inference_operator.views.raw import mapping

LOADED, ADVERTISED = "loaded.json", "advertised"
"""Keys: paths by name, which engines load; and one name a line, which routers advertise."""
LIST_FOLDER = "/adapter-list"
"""Mount path of the ConfigMap in engines' pods."""
TELL_AFTER = timedelta(milliseconds=300)
"""From the write of a list until pods are told: the kubelet's watch of the list has it by then."""
VOLUME = "adapter-list"
_HASH_DIGITS = 16


@dataclass(frozen=True, slots=True)
class AdapterList:
    loaded: Mapping[str, str]
    """Paths in engines, by the adapters' names."""
    advertised: Sequence[str] = ()

    @property
    def loaded_text(self) -> str:
        return json.dumps(dict(self.loaded), sort_keys=True)

    @property
    def advertised_text(self) -> str:
        return "".join(f"{name}\n" for name in sorted(self.advertised))


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def adapter_list(listed: AdapterList, owner: Owner) -> Manifest:
    content = {"data": {LOADED: listed.loaded_text, ADVERTISED: listed.advertised_text}}
    return child(CONFIG_MAP, adapter_list_name(owner.key.name), owner=owner, component=ADAPTER, content=content)


def adapter_list_ref(owner: Owner) -> Ref:
    return Ref(CONFIG_MAP, owner.key.namespace, adapter_list_name(owner.key.name))


def listed_adapters(live: Manifest | None) -> AdapterList:
    """The content of a live ConfigMap; empty without one, or if it was edited to something else."""
    data = mapping(live or {}, "data")
    try:
        loaded = json.loads(str(data.get(LOADED) or "{}"))
    except (ValueError, RecursionError):
        loaded = {}
    paths = {str(n): str(path) for n, path in loaded.items()} if isinstance(loaded, dict) else {}
    return AdapterList(paths, tuple(str(data.get(ADVERTISED) or "").split()))


def list_volume(name: str) -> Manifest:
    """The volume of the ConfigMap of this name; pods start also without it."""
    return {"name": VOLUME, "configMap": {"name": name, "optional": True}}


def list_mount(path: str = LIST_FOLDER) -> Manifest:
    """The mount of the whole folder, since the kubelet never updates a single file."""
    return {"name": VOLUME, "mountPath": path, "readOnly": True}
