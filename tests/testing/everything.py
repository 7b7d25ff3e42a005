"""Scheduling and pod template fields with every supported value, as a user writes them."""

from inference_operator.manifest import Manifest

SCHEDULING: Manifest = {
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "pool": ""},
    "tolerations": [
        {"key": "dedicated", "operator": "Equal", "value": "inference", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "value": "", "effect": "NoExecute", "tolerationSeconds": 60},
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]},
                            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
                            {"key": "nvidia.com/mig.config", "operator": "DoesNotExist"},
                        ]
                    }
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "preference": {"matchExpressions": [{"key": "spot", "operator": "Exists"}]}}
            ],
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {"app": "cache"}},
                        "topologyKey": "topology.kubernetes.io/zone",
                    },
                }
            ]
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "training"}}, "topologyKey": "kubernetes.io/hostname"},
                {
                    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                    "namespaces": ["training"],
                    "topologyKey": "kubernetes.io/hostname",
                },
            ]
        },
    },
    "priorityClassName": "system-cluster-critical",
    "runtimeClassName": "nvidia",
    "schedulerName": "default-scheduler",
    "queueName": "team-a",
    "gang": "Off",
    "topologySpread": [
        {"topologyKey": "topology.kubernetes.io/zone"},
        {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3},
    ],
}

POD_TEMPLATE: Manifest = {
    "labels": {"team": "search", "cost-centre": "42"},
    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    "volumes": [
        {"name": "hub", "persistentVolumeClaim": {"claimName": "hub-cache"}},
        {"name": "templates", "configMap": {"name": "chat-templates"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}},
        {"name": "adapter", "image": {"reference": "ghcr.io/org/adapter:1"}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": "shared", "readOnly": True}},
        {"name": "certificates", "secret": {"secretName": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"name": "vault", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}},
    ],
    "serviceAccountName": "default",
    "imagePullSecrets": [{"name": "registry"}],
    "envFrom": [
        {"configMapRef": {"name": "proxies", "optional": True}},
        {"prefix": "HUB_", "secretRef": {"name": "hub"}},
    ],
    "initContainers": [
        {
            "name": "certificates",
            "image": "example.com/plain:1",
            "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "envFrom": [{"configMapRef": {"name": "proxies"}}],
        }
    ],
    "volumeMounts": [
        {"name": "hub", "mountPath": "/home/vllm/.cache/huggingface", "subPath": "team-a"},
        {"name": "templates", "mountPath": "/templates", "readOnly": True},
        {"name": "adapter", "mountPath": "/adapter"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "fast", "mountPath": "/fast"},
        {"name": "shared", "mountPath": "/shared"},
        {"name": "certificates", "mountPath": "/certificates"},
        {"name": "vault", "mountPath": "/vault", "readOnly": True},
    ],
    "sidecars": [
        {
            "name": "log-shipper",
            "image": "example.com/shipper:1",
            "command": ["/shipper"],
            "args": ["--quiet"],
            "env": [
                {"name": "EMPTY", "value": ""},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "shipper", "key": "token"}}},
            ],
            "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "0.5Gi"}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": True}],
        },
        {"name": "plain", "image": "example.com/plain:1"},
    ],
}
