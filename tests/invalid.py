"""What nobody may ask for: refused by the API server and, where it comes from a file, by pydantic."""

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

INVALID: dict[str, tuple[Manifest, str, str]] = {
    "served name": (
        {"model": {"source": "hf://a/b", "servedName": "a b"}},
        "spec.model.servedName",
        "for example `qwen3-8b`",
    ),
    "image": ({"engine": {"image": "a b"}}, "spec.engine.image", "without spaces"),
    "variable without value": ({"engine": {"env": [{"name": "A"}]}}, "spec.engine.env[0]", "exactly one of `value`"),
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
        "must have no `value`",
    ),
    "toleration for a time": (
        {"scheduling": {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]}},
        _TAINT,
        "needs the effect `NoExecute`",
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
    "pods without labels": (
        _pods(labelSelector={"matchLabels": {}}, topologyKey="a"),
        f"{_POD}.labelSelector.matchLabels",
        "1",
    ),
    "pods without topology": (_pods(labelSelector={"matchLabels": {"a": "b"}}), f"{_POD}.topologyKey", ""),
    "priority class": (
        {"scheduling": {"priorityClassName": "High_One"}},
        "spec.scheduling.priorityClassName",
        "",
    ),
    "queue": ({"scheduling": {"queueName": "q" * 64}}, "spec.scheduling.queueName", "63"),
    "skew": ({"scheduling": {"topologySpread": [{**_HOST, "maxSkew": 0}]}}, f"{_SPREAD}[0].maxSkew", "1"),
    "domains": (
        {"scheduling": {"topologySpread": [{**_HOST, "minDomains": 2}]}},
        f"{_SPREAD}[0]",
        "needs `whenUnsatisfiable: DoNotSchedule`",
    ),
    "spread twice": ({"scheduling": {"topologySpread": [_HOST, _HOST]}}, _SPREAD, ""),
}
"""Name: the fields, where they are wrong, and words of the answer."""
