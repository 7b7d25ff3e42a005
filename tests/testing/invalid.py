"""Invalid specs: the API server refuses them, and pydantic refuses those that come from a file."""

from inference_operator.manifest import Manifest

_TERM = "requiredDuringSchedulingIgnoredDuringExecution"


def _nodes(**requirement: object) -> Manifest:
    term = {"matchExpressions": [requirement]}
    return {"scheduling": {"affinity": {"nodeAffinity": {_TERM: {"nodeSelectorTerms": [term]}}}}}


def _pods(**term: object) -> Manifest:
    return {"scheduling": {"affinity": {"podAntiAffinity": {_TERM: [term]}}}}


_NODE = f"spec.scheduling.affinity.nodeAffinity.{_TERM}.nodeSelectorTerms[0].matchExpressions[0]"
_POD = f"spec.scheduling.affinity.podAntiAffinity.{_TERM}[0]"
_TAINT = "spec.scheduling.tolerations[0]"
_SPREAD = "spec.scheduling.topologySpread"
_HOST = {"topologyKey": "kubernetes.io/hostname"}

_ADDED = "spec.podTemplate"
_FOLDER: Manifest = {"name": "a", "emptyDir": {}}
_SIDECAR: Manifest = {"name": "a", "image": "b"}


def _added(**fields: object) -> Manifest:
    return {"podTemplate": fields}


INVALID: dict[str, tuple[Manifest, str, str]] = {
    "served name": (
        {"model": {"source": "hf://a/b", "servedName": "a b"}},
        "spec.model.servedName",
        "for example `qwen3-8b`",
    ),
    **{
        f"pickle files that can change, {name}": (
            {"model": {**model, "allowPickle": True}},
            "spec.model",
            "`allowPickle` needs weights that cannot change",
        )
        for name, model in {
            "default branch": {"source": "hf://a/b"},
            "branch": {"source": "hf://a/b", "revision": "main"},
            "tag of an image": {"source": "oci://registry.example/a:1"},
        }.items()
    },
    **{
        f"host of media, {domain}": (
            {"engine": {"multimodal": {"allowedDomains": [domain]}}},
            "spec.engine.multimodal.allowedDomains[0]",
            "",
        )
        for domain in ("*.example.com", "Example.com", "169.254.169.254", "example.com:80", "")
    },
    "image": ({"engine": {"image": "a b"}}, "spec.engine.image", "without spaces"),
    "variable without value": ({"engine": {"env": [{"name": "A"}]}}, "spec.engine.env[0]", "exactly one of `value`"),
    **{
        f"signature of {name}": (
            {"model": {"source": source, "verify": {"configMapRef": {"name": "keys"}}}},
            "spec.model",
            "`verify` needs an image by its digest",
        )
        for name, source in {"a repository": "hf://a/b", "a tag": "oci://registry.example/a:1"}.items()
    },
    **{
        f"endpoint of a store, {name}": (
            {"model": {"source": "s3://a12/b", "s3": {"endpoint": endpoint}}, "cache": {"claimName": "c"}},
            "spec.model.s3.endpoint",
            "must be a URL",
        )
        for name, endpoint in {
            "no scheme": "minio:9000",
            "space": "https://minio storage:9000",
            "path": "https://minio:9000/a",
            "bracket": "https://[::1",
        }.items()
    },
    "key of a Secret": (
        {"engine": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a/b"}}}]}},
        "spec.engine.env[0].valueFrom.secretKeyRef.key",
        "",
    ),
    "node selector key": (
        {"scheduling": {"nodeSelector": {"a b": "c"}}},
        "spec.scheduling.nodeSelector",
        "must have label keys, for example `nvidia.com/gpu.product`",
    ),
    "node selector value": ({"scheduling": {"nodeSelector": {"a": "-"}}}, "spec.scheduling.nodeSelector.a", ""),
    "node selector size": (
        {"scheduling": {"nodeSelector": {f"a{n}": "b" for n in range(33)}}},
        "spec.scheduling.nodeSelector",
        "32",
    ),
    "toleration of nothing": ({"scheduling": {"tolerations": [{"value": "x"}]}}, _TAINT, "must have a `key`"),
    "toleration with a value too many": (
        {"scheduling": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}},
        _TAINT,
        "must not have a `value`",
    ),
    "toleration for a time": (
        {"scheduling": {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]}},
        _TAINT,
        "requires the effect `NoExecute`",
    ),
    "toleration operator": ({"scheduling": {"tolerations": [{"key": "a", "operator": "Is"}]}}, _TAINT, "Exists"),
    "node without values": (_nodes(key="a", operator="In"), _NODE, "must have `values`"),
    "node with values": (_nodes(key="a", operator="Exists", values=["b"]), _NODE, "must have `values`, except"),
    "node with a word": (_nodes(key="a", operator="Gt", values=["b"]), _NODE, "for example `40000`"),
    "node with two numbers": (_nodes(key="a", operator="Lt", values=["1", "2"]), _NODE, "for example `40000`"),
    "node without key": (_nodes(operator="Exists"), f"{_NODE}.key", ""),
    "no nodes": (
        {"scheduling": {"affinity": {"nodeAffinity": {_TERM: {"nodeSelectorTerms": []}}}}},
        f"spec.scheduling.affinity.nodeAffinity.{_TERM}.nodeSelectorTerms",
        "1",
    ),
    "pods without topology": (_pods(labelSelector={"matchLabels": {"a": "b"}}), f"{_POD}.topologyKey", ""),
    "priority class": (
        {"scheduling": {"priorityClassName": "High_One"}},
        "spec.scheduling.priorityClassName",
        "",
    ),
    "network without domain": (
        {"hardware": {"network": {"resource": "rdma"}}},
        "spec.hardware.network.resource",
        "",
    ),
    "network of Kubernetes": (
        {"hardware": {"network": {"resource": "kubernetes.io/batch"}}},
        "spec.hardware.network.resource",
        "must be the resource of a device plugin",
    ),
    "devices of no resource": (
        {"hardware": {"network": {"count": 2}}},
        "spec.hardware.network",
        "`count` needs `resource`",
    ),
    "no devices": ({"hardware": {"network": {"resource": "rdma/ib", "count": 0}}}, "spec.hardware.network.count", "1"),
    "interface": ({"hardware": {"network": {"interface": "^eth"}}}, "spec.hardware.network.interface", ""),
    "long interface": ({"hardware": {"network": {"interface": "e" * 16}}}, "spec.hardware.network.interface", "15"),
    "topology": ({"scheduling": {"topologyKey": "a b"}}, "spec.scheduling.topologyKey", ""),
    "queue": ({"scheduling": {"queueName": "q" * 64}}, "spec.scheduling.queueName", "63"),
    "skew": ({"scheduling": {"topologySpread": [{**_HOST, "maxSkew": 0}]}}, f"{_SPREAD}[0].maxSkew", "1"),
    "domains": (
        {"scheduling": {"topologySpread": [{**_HOST, "minDomains": 2}]}},
        f"{_SPREAD}[0]",
        "requires `whenUnsatisfiable: DoNotSchedule`",
    ),
    "annotation key": (_added(annotations={"a b": ""}), f"{_ADDED}.annotations", "must have label keys"),
    "label value": (_added(labels={"a": "b c"}), f"{_ADDED}.labels.a", ""),
    "volume of the node": (
        _added(volumes=[{"name": "a", "hostPath": {"path": "/"}, "emptyDir": {}}]),
        f"{_ADDED}.volumes[0]",
        "hostPath",
    ),
    "writable volume of a CSI driver": (
        _added(volumes=[{"name": "a", "csi": {"driver": "b", "readOnly": False}}]),
        f"{_ADDED}.volumes[0].csi.readOnly",
        "",
    ),
    "field of a pod that has no such": (
        {"engine": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.containers"}}}]}},
        "spec.engine.env[0].valueFrom.fieldRef.fieldPath",
        "",
    ),
    "variables of two objects": (
        _added(envFrom=[{"secretRef": {"name": "a"}, "configMapRef": {"name": "b"}}]),
        f"{_ADDED}.envFrom[0]",
        "must have exactly one of",
    ),
    "volume of nothing": (_added(volumes=[{"name": "a"}]), f"{_ADDED}.volumes[0]", "must have exactly one of"),
    "volume of two things": (
        _added(volumes=[{**_FOLDER, "image": {"reference": "b"}}]),
        f"{_ADDED}.volumes[0]",
        "must have exactly one of",
    ),
    "volume name": (_added(volumes=[{**_FOLDER, "name": "A"}]), f"{_ADDED}.volumes[0].name", ""),
    "volume twice": (_added(volumes=[_FOLDER, _FOLDER]), f"{_ADDED}.volumes", ""),
    "volume size": (
        _added(volumes=[{"name": "a", "emptyDir": {"sizeLimit": "big"}}]),
        f"{_ADDED}.volumes[0].emptyDir.sizeLimit",
        "",
    ),
    "mount without a root": (
        _added(volumes=[_FOLDER], volumeMounts=[{"name": "a", "mountPath": "data"}]),
        f"{_ADDED}.volumeMounts[0].mountPath",
        "",
    ),
    "mount outside": (
        _added(volumes=[_FOLDER], volumeMounts=[{"name": "a", "mountPath": "/a", "subPath": "b/../../c"}]),
        f"{_ADDED}.volumeMounts[0].subPath",
        "must be a path inside the volume",
    ),
    "sidecar without image": (_added(sidecars=[{"name": "a"}]), f"{_ADDED}.sidecars[0].image", ""),
    "sidecar with a privilege": (
        _added(sidecars=[{**_SIDECAR, "securityContext": {"privileged": True}}]),
        f"{_ADDED}.sidecars[0].securityContext",
        "",
    ),
    "five sidecars": (
        _added(sidecars=[{**_SIDECAR, "name": f"a{n}"} for n in range(5)]),
        f"{_ADDED}.sidecars",
        "4",
    ),
    "host network": (_added(hostNetwork=True), f"{_ADDED}.hostNetwork", ""),
    "spread twice": ({"scheduling": {"topologySpread": [_HOST, _HOST]}}, _SPREAD, ""),
}
"""Name: the fields, where they are wrong, and words of the answer."""
