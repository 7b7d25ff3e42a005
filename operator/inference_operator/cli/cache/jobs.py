"""The Jobs of `infd cache`, which belong to no resource: one downloads a model to a claim, one prunes the claim."""

from collections.abc import Sequence

from inference_operator.engines.model_access import HubAccess
from inference_operator.jobs.download import RESOURCES, DownloadInputs, download_task
from inference_operator.jobs.download_result import Downloaded, record_data
from inference_operator.jobs.placement import mounted_claims, only_node
from inference_operator.jobs.result import TERMINATION_MESSAGE
from inference_operator.jobs.task import job_container, job_content, job_fields, job_pod
from inference_operator.manifest import CONFIG_MAP, JOB, Kind, Manifest
from inference_operator.model_files.uses import COMMAND, Uses, keep_arguments
from inference_operator.objects.cache_volume import ROOT, CacheVolume, cache_volumes, whole_mount
from inference_operator.objects.child import content_hash
from inference_operator.objects.container import process_fields
from inference_operator.objects.names import COMPONENT_LABEL, DOWNLOAD, MANAGED_BY_LABEL
from inference_operator.settings import Settings
from inference_operator.views.raw import mapping

PRUNE = "prune"
KEPT_SECONDS = 3600
"""How long an ended Job stays, so that its log can be read."""
PRUNE_DEADLINE_SECONDS = 3600
"""Time limit of pruning: deleting some thousand files takes minutes on slow network file systems."""


def prefetch_job(inputs: DownloadInputs) -> Manifest:
    """The Job of a download without a resource: as the operator creates it, but with another name and no owner."""
    content = job_content(download_task(inputs))
    return _job("prefetch", inputs.job.owner.key.namespace, content["spec"])


def prefetch_record(inputs: DownloadInputs, result: Downloaded) -> Manifest:
    """The ConfigMap that lets `infd cache list` know the model after the Job is gone."""
    source, claim = inputs.job.spec.model.source, inputs.cache.claim
    name = f"{COMMAND}-prefetch-{content_hash([source, result.commit, claim])}"
    head = _object(CONFIG_MAP, name, inputs.job.owner.key.namespace, DOWNLOAD)
    return {**head, "data": record_data(result, claim=claim, model=source)}


def prune_job(
    claim: str, namespace: str, uses: Uses, access: HubAccess, settings: Settings, *, dry_run: bool, node: str
) -> Manifest:
    """The Job that deletes the models and compiled kernels that are not in use.

    Args:
        claim: name of the claim.
        namespace: its namespace.
        uses: what is in use.
        access: the engines' user, whose files these are.
        settings: the operator's settings.
        dry_run: whether to delete nothing.
        node: the node of the claim, if pods of one node only can mount it; empty for any.
    """
    last = ["--dry-run"] if dry_run else []
    arguments = [f"--cache={ROOT}", *keep_arguments(uses), *last, f"--to={TERMINATION_MESSAGE}"]
    process = process_fields(command=[COMMAND, PRUNE], args=arguments)
    image, mounts = settings.operator_image, [whole_mount()]
    container = job_container(PRUNE, process, settings, image=image, resources=RESOURCES, mounts=mounts)
    volumes = cache_volumes(CacheVolume(claim, ""))
    pod = {
        **job_pod(container, volumes, access, settings, settings.engine_defaults.template),
        **({"affinity": only_node(node)} if node else {}),
    }
    return _job(PRUNE, namespace, job_fields(PRUNE_DEADLINE_SECONDS, {"spec": pod})["spec"])


def on_node(job: Manifest, node: str) -> Manifest:
    """The Job, on a node that has the claim now; the same without a node."""
    if not node:
        return job
    template = job["spec"]["template"]
    pod = {**template["spec"], "affinity": only_node(node)}
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": pod}}}


def claim_node(claim: str, access_modes: Sequence[str], pods: Sequence[Manifest]) -> str:
    """The node on which running pods mount a claim that one node only can mount; empty if any node will do.

    Examples:
        >>> volumes = [{"persistentVolumeClaim": {"claimName": "models"}}]
        >>> pod = {"spec": {"nodeName": "a", "volumes": volumes}, "status": {"phase": "Running"}}
        >>> claim_node("models", ["ReadWriteOnce"], [pod]), claim_node("models", ["ReadWriteMany"], [pod])
        ('a', '')
    """
    if {"ReadWriteMany", "ReadOnlyMany"} & set(access_modes):
        return ""
    running = (pod["spec"] for pod in pods if mapping(pod, "status").get("phase") in ("Pending", "Running"))
    nodes = (str(pod.get("nodeName") or "") for pod in running if claim in mounted_claims(pod).values())
    return next((node for node in nodes if node), "")


def _job(what: str, namespace: str, spec: Manifest) -> Manifest:
    name = f"{COMMAND}-{what}-{content_hash(spec)}"
    head = _object(JOB, name, namespace, DOWNLOAD if what == "prefetch" else what)
    labels = head["metadata"]["labels"]
    template = {**spec["template"], "metadata": {"labels": labels}}
    return {**head, "spec": {**spec, "template": template, "ttlSecondsAfterFinished": KEPT_SECONDS}}


def _object(kind: Kind, name: str, namespace: str, component: str) -> Manifest:
    labels = {MANAGED_BY_LABEL: COMMAND, COMPONENT_LABEL: component}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
    }
