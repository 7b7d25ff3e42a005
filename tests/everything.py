"""What scheduling may ask for, all of it, as a user writes it."""

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
                {"labelSelector": {"matchLabels": {"app": "training"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        },
    },
    "priorityClassName": "system-cluster-critical",
    "runtimeClassName": "nvidia",
    "schedulerName": "default-scheduler",
    "queueName": "team-a",
    "topologySpread": [
        {"topologyKey": "topology.kubernetes.io/zone"},
        {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3},
    ],
}
