"""Where the Job of a download may run, if one node only can mount its claim at a time.

1. Where engines have the claim mounted: only there can the Job mount it too.
2. Otherwise where the engines may run: the first pod that mounts a new volume binds it to a node or a zone.

A claim for pods on all nodes needs no such rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.manifest import Manifest
from inference_operator.objects.cache_volume import CacheVolume, cache_volumes
from inference_operator.views.pod import PodView
from inference_operator.views.raw import mapping, objects

PLACEMENT_FIELDS = ("nodeSelector", "affinity")


@dataclass(frozen=True, slots=True)
class WritableClaim:
    name: str
    placement: Manifest | None = None
    """Scheduling fields instead of the requested ones, where one node only can mount it; None for others."""
    is_known: bool = True
    """Whether it has been looked up, if it must be: its access modes decide where a Job may run. Else none starts."""

    @property
    def volumes(self) -> list[Manifest]:
        return cache_volumes(CacheVolume(self.name, ""))


def placement(engines: Sequence[PodView], engine_pod: Manifest) -> Manifest:
    """The Job's scheduling fields, in place of the requested ones, by engine pods that may have the claim mounted."""
    placed = (pod for pod in engines if pod.node and not pod.failed)
    best = min(placed, key=lambda pod: (pod.terminating, not pod.ready, pod.name), default=None)
    return {"affinity": only_node(best.node)} if best else placement_of(engine_pod)


def placement_of(pod: Manifest) -> Manifest:
    return {name: pod[name] for name in PLACEMENT_FIELDS if pod.get(name)}


def with_placement(job: Manifest, fields: Manifest) -> Manifest:
    template = job["spec"]["template"]
    others = {name: field for name, field in template["spec"].items() if name not in PLACEMENT_FIELDS}
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": {**others, **fields}}}}


def only_node(name: str) -> Manifest:
    """Affinity to one node by its name, which need not be its label `kubernetes.io/hostname`."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def mounted_claims(pod: Manifest) -> dict[str, str]:
    claims = ((volume, mapping(volume, "persistentVolumeClaim").get("claimName")) for volume in objects(pod, "volumes"))
    return {str(volume.get("name")): str(claim) for volume, claim in claims if claim}
