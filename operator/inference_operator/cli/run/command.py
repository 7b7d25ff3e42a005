"""`infd run`: creates the smallest InferenceDeployment for a model, and follows it until it serves."""

import argparse
import re
import shlex
import sys
import time

from inference_operator.api.explanations import ENGINE_ERRORS, EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource, resource
from inference_operator.cli.cluster_command import ClusterCommand, Step, exit_status, wait_until
from inference_operator.cli.live_resource import pods_of
from inference_operator.cli.managed_fields import FIELD_MANAGER
from inference_operator.cli.options import token_reference
from inference_operator.cli.output import manifests_text
from inference_operator.cli.parser import EXIT_NOT_FOUND, RefusedError, UsageError, harmless
from inference_operator.controller.cluster import ClusterError, ConflictError, NotFoundError, RejectedError
from inference_operator.diagnosis.pod_diagnosis import LOG_IS_READ
from inference_operator.kube.cluster import NO_OBJECTS_VERSION, KubeCluster
from inference_operator.manifest import API_VERSION, INFERENCE_DEPLOYMENT, KIND, MODEL_GATEWAY, Manifest, Ref
from inference_operator.models.source import model_source
from inference_operator.objects.names import NAME_LABEL, ROUTER, is_role
from inference_operator.views.raw import mapping

UNSEEN_SECONDS = 30
"""After this time without a status, the command says that the operator may not run."""
MOST_ENDS = 2
"""Ends of a container after which the command waits no longer. The operator corrects a plan after the first one, and
then its engines are new pods."""
_MENDED = frozenset({Reason.KERNELS_BROKEN, Reason.GPU_HARDWARE_ERROR})
"""Reasons of ends after which the operator itself changes what the same pod or its successor finds."""
_PASSING = frozenset(
    {
        Reason.HUB_UNREACHABLE,
        Reason.COMMUNICATION_FAILED,
        Reason.DEVICE_MEMORY_IN_USE,
        Reason.GPU_NOT_VISIBLE,
        Reason.DISK_FULL,
    }
)
"""Reasons of ends that may pass by themselves: a network, a process that leaves a GPU, a peer that starts later."""
_ENDS = {*ENGINE_ERRORS, Reason.CRASH_LOOP, Reason.OUT_OF_MEMORY} - _MENDED - _PASSING
"""Reasons of containers that end again if nobody changes anything. A start that took too long has more on its disk the
next time."""


def run(options: argparse.Namespace) -> int:
    manifest, gateway = smallest_manifest(options), gateway_manifest(options)
    if options.dry_run:
        print(manifests_text([manifest, *([gateway] if gateway else [])], options.output))
        return 0
    ref = Ref(INFERENCE_DEPLOYMENT, options.namespace, options.name)

    command = ClusterCommand(options)

    async def work(cluster: KubeCluster) -> int:
        await _create(cluster, ref, manifest)
        watch = f"kubectl get infd --namespace {ref.namespace} {ref.name} --watch"
        command.interrupted = f"Interrupted. It goes on starting: {watch}"
        print(f"{ref.namespace}/{ref.name}: created.", flush=True)
        if gateway:
            await _create_gateway(cluster, Ref.of(gateway), gateway)
        return 0 if options.no_wait else await _follow(cluster, ref, options.timeout, options.gateway)

    return command.run(work)


async def _create(cluster: KubeCluster, ref: Ref, manifest: Manifest) -> None:
    """Create the resource; an existing one is never changed."""
    body = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": NO_OBJECTS_VERSION}}
    try:
        await cluster.api.request("PATCH", ref.path, ref.kind, query={"fieldManager": FIELD_MANAGER}, body=body)
    except ConflictError as error:
        cure = "Choose another name, or edit it with `kubectl edit infd`."
        raise RefusedError(f"{ref.namespace}/{ref.name} exists, and was not changed. {cure}") from error
    except NotFoundError as error:
        raise UsageError(
            f"The cluster has no namespace `{ref.namespace}`, or no inference-operator: {error.cause}.", EXIT_NOT_FOUND
        ) from error
    except RejectedError as error:
        raise UsageError(f"The API server refuses it: {error.cause}", exit_status(error)) from error


async def _create_gateway(cluster: KubeCluster, ref: Ref, manifest: Manifest) -> None:
    """Create the gateway; one that exists serves the new model too."""
    try:
        await _create(cluster, ref, manifest)
        said = "created"
    except RefusedError:
        said = "exists, and takes the model as it is"
    print(f"{ref.namespace}/{ref.name} (ModelGateway): {said}.", flush=True)


async def _follow(cluster: KubeCluster, ref: Ref, timeout_seconds: int, gateway: str) -> int:
    """Print each new message of the status until the resource serves (0), or cannot (1)."""
    begin = time.monotonic()
    stays = f"The resource stays: change it, or `kubectl delete infd --namespace {ref.namespace} {ref.name}`."

    async def progress(live: Manifest) -> Step:
        found, waited = resource(live), time.monotonic() - begin
        message = _progress(found, waited)
        if found.is_true(ConditionType.READY):
            return Step(message, is_last=True)
        if reason := await _repeated_end(cluster, ref, found):
            log = f"`infd logs --namespace {ref.namespace} --previous {ref.name}` prints the log, the cause first."
            again = f"It has ended {MOST_ENDS} times, and waiting does not help."
            return Step(message, failure=f"{again} {EXPLANATIONS[reason].cure} {log} {stays}")
        if found.is_true(ConditionType.STALLED):
            return Step(message, failure=f"It cannot go on by itself. {stays}")
        late = f"Not Ready after {timeout_seconds} s. {stays}" if waited > timeout_seconds else ""
        return Step(message, failure=late)

    try:
        deleted = RefusedError(f"{ref.namespace}/{ref.name} was deleted.")
        live = await wait_until(cluster, ref, progress, deleted=deleted)
    except RefusedError as error:  # as text also with --output, which is that of --dry-run
        print(harmless(str(error)), file=sys.stderr)
        return error.status
    print(harmless(_next_commands(ref, str(mapping(live, "status").get("url") or ""), gateway)))
    return 0


async def _repeated_end(cluster: KubeCluster, ref: Ref, found: Resource) -> Reason | None:
    """The reason for which the newest engine or router ends again and again; None if it does not, or may be mended.

    The newest pod is one of the latest plan. Who may not list pods waits on.
    """
    condition = found.current_condition(ConditionType.RECONCILING)
    reason = next((reason for reason in _ENDS if condition and reason == condition.reason), None)
    if condition is None or condition.status != "True" or reason is None or LOG_IS_READ in condition.message:
        return None
    try:
        views = await pods_of(cluster, ref.namespace, f"{NAME_LABEL}={ref.name}")
    except ClusterError:
        return None
    oldest_first = sorted(views, key=lambda pod: (str(pod.created), pod.name))
    newest = {pod.component: pod for pod in oldest_first if is_role(pod.component) or pod.component == ROUTER}
    # one that runs again has another try
    stopped = [pod for pod in newest.values() if pod.problem and not pod.running]
    ends_again = any((pod.restart.count if pod.restart else 0) + 1 >= MOST_ENDS for pod in stopped)
    return reason if ends_again else None


def _progress(found: Resource, waited: float) -> str:
    """The condition that tells most: what is wrong, then what goes on, then whether it serves."""
    for kind in (ConditionType.STALLED, ConditionType.RECONCILING, ConditionType.READY):
        condition = found.current_condition(kind)
        if condition and condition.status == "True":
            return f"{condition.reason}: {condition.message}"
    if waited > UNSEEN_SECONDS:
        return "the operator has not seen it yet. Does it run? `kubectl get deployments -A | grep inference-operator`"
    return "waiting for the operator."


def _next_commands(ref: Ref, url: str, gateway: str) -> str:
    request = shlex.quote(f'{{"model": "{ref.name}", "prompt": "Hello", "max_tokens": 16}}')
    return (
        f"It serves at {url or 'its Service'} inside the cluster. From here:\n"
        f"  infd chat --namespace {ref.namespace} {ref.name} Hello\n"
        "or, as any client of the OpenAI API:\n"
        f"  kubectl port-forward --namespace {ref.namespace} service/{ref.name} 8080:80 &\n"
        f"  curl localhost:8080/v1/completions --header 'Content-Type: application/json' --data {request}"
        + (f"\nBehind the gateway: infd gateway status --namespace {ref.namespace} {gateway}" if gateway else "")
    )


def smallest_manifest(options: argparse.Namespace) -> Manifest:
    """The manifest that `kubectl apply` and GitOps take too, without any default.

    Raises:
        UsageError: a choice is invalid, with the field and the cure.

    Examples:
        >>> from inference_operator.cli.main import parser
        >>> def spec(*words):
        ...     return smallest_manifest(parser(["run"]).parse_args(["run", "--namespace=a", "qwen", *words]))["spec"]
        >>> spec("Qwen/Qwen3-8B")
        {'model': {'source': 'hf://Qwen/Qwen3-8B'}}
        >>> spec("org/neo", "--engine=Transformers")["engine"]
        {'kind': 'Transformers'}
        >>> found = spec("pvc://models", "--gpu=L4", "--autoscale=0..4")
        >>> found["hardware"], found["autoscaling"]
        ({'gpu': {'products': ['L4']}}, {'minReplicas': 0, 'maxReplicas': 4})
    """
    gpus = [kind.strip() for kind in options.gpu.split(",") if kind.strip()]
    source = options.source if "://" in options.source else f"hf://{options.source}"
    spec: Manifest = {"model": {"source": source, **token_reference(options.token_secret)}}
    if options.cpu:
        spec["hardware"] = {"device": "CPU"}
    elif gpus:
        spec["hardware"] = {"gpu": {"products": gpus}}
    if options.engine:
        spec["engine"] = {"kind": options.engine}
    if options.autoscale:
        spec["autoscaling"] = _scaling(options.autoscale)
    elif options.replicas is not None:
        spec["replicas"] = options.replicas
    metadata = {"name": options.name, "namespace": options.namespace}
    made = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    checks = resource({**made, "metadata": {**metadata, "uid": "", "generation": 1}}).spec, model_source(source)
    for checked in checks:
        if isinstance(checked, Refusal):
            raise UsageError(checked.message)
    return made


def gateway_manifest(options: argparse.Namespace) -> Manifest | None:
    metadata = {"name": options.gateway, "namespace": options.namespace}
    made = {"apiVersion": API_VERSION, "kind": MODEL_GATEWAY.name, "metadata": metadata, "spec": {}}
    return made if options.gateway else None


def _scaling(text: str) -> Manifest:
    found = re.fullmatch(r"(\d{1,4})\.\.(\d{1,4})", text)
    if found is None:
        raise UsageError("--autoscale: write the least and the most engines as MIN..MAX, for example `0..4`.")
    return {"minReplicas": int(found[1]), "maxReplicas": int(found[2])}
