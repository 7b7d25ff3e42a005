"""The pod of `infd doctor --cluster`: asks DNS and the hub from inside, and is deleted at the end."""

import asyncio
import json
import secrets
import sys
import time
from importlib.resources import files

from inference_operator.cli.cluster_command import POLL_SECONDS
from inference_operator.cli.doctor.facts import ClusterFacts, ProbeResult
from inference_operator.cli.doctor.nodes import PULL_ERRORS
from inference_operator.cli.operator_settings import is_at_home
from inference_operator.cli.parser import harmless
from inference_operator.controller.cluster import ClusterError, ConflictError, NotFoundError
from inference_operator.jobs.result import TERMINATION_MESSAGE
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.objects.container import process_fields
from inference_operator.objects.pod import RESTRICTED_CONTAINER, restricted_pod
from inference_operator.settings import PREFIX, PodUsers, Settings
from inference_operator.views.raw import condition, mapping, objects
from inference_operator.views.untrusted_text import one_line

USER, GROUP = 2000, 0
"""As engines and Jobs have (docs/how-to/platforms.md)."""
DEADLINE_SECONDS = 600
"""For the image's pull, and the program with three questions of at most 10 s each."""
COMPONENT = "doctor"
NAME_BYTES = 4


def probe_pod(facts: ClusterFacts, hub: str) -> Manifest:
    """The pod: restricted, with the operator's image, and ended by Kubernetes if `infd` cannot delete it.

    Its image is a setting only of an operator in its own namespace: tenants could name any image in another.
    """
    defaults = Settings.model_fields
    named = facts.settings.get(f"{PREFIX}OPERATOR_IMAGE") if facts.operator and is_at_home(facts.operator) else ""
    image = named or defaults["operator_image"].default
    domain = facts.settings.get(f"{PREFIX}CLUSTER_DOMAIN") or defaults["cluster_domain"].default
    is_chosen = facts.settings.get(f"{PREFIX}POD_USERS") == PodUsers.FROM_PLATFORM
    users = PodUsers.FROM_PLATFORM if is_chosen else PodUsers.FIXED
    program = files("inference_operator.cli.doctor").joinpath("probe_program.py").read_text(encoding="utf-8")
    arguments = ["-c", program, f"kubernetes.default.svc.{domain}", hub, TERMINATION_MESSAGE]
    container = {
        "name": COMPONENT,
        "image": image,
        **process_fields(command=["python3"], args=arguments),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": RESTRICTED_CONTAINER,
    }
    name = f"infd-{COMPONENT}-{secrets.token_hex(NAME_BYTES)}"
    labels = {"app.kubernetes.io/managed-by": "infd", "app.kubernetes.io/component": COMPONENT}
    return {
        "apiVersion": POD.api_version,
        "kind": POD.name,
        "metadata": {"name": name, "namespace": facts.namespace, "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": restricted_pod(users, user=USER, group=GROUP),
            "containers": [container],
        },
    }


async def probed(cluster: KubeCluster, pod: Manifest, timeout_seconds: int) -> ProbeResult:
    """What the pod finds; it is deleted whatever happens."""
    try:
        made = await cluster.api.request("POST", POD.path(pod["metadata"]["namespace"]), POD, body=pod)
    except ClusterError as error:
        return ProbeResult(harmless(error.cause))
    ref, deadline = Ref.of(pod), time.monotonic() + timeout_seconds
    try:
        while found := await cluster.get(ref):
            late = time.monotonic() > deadline
            if result := result_of(found, timeout_seconds if late else 0):
                return result
            await asyncio.sleep(POLL_SECONDS)
        return ProbeResult("somebody deleted it.")
    except ClusterError as error:
        return ProbeResult(harmless(error.cause))
    finally:
        await _deleted(cluster, ref, made["metadata"]["uid"])


async def _deleted(cluster: KubeCluster, ref: Ref, uid: str) -> None:
    try:
        await cluster.delete(ref, uid=uid, grace_seconds=0)
    except (NotFoundError, ConflictError):  # somebody else has deleted it
        return
    except ClusterError as error:
        place = f"{ref.namespace}/{ref.name}"
        print(f"The pod {place} could not be deleted: {harmless(error.cause)}. Delete it.", file=sys.stderr)


def result_of(pod: Manifest, waited_seconds: int = 0) -> ProbeResult | None:
    """The result of the pod; None while it may still have one, which is until it has been waited for."""
    status = mapping(pod, "status")
    state = mapping(next(iter(objects(status, "containerStatuses")), {}), "state")
    if ended := mapping(state, "terminated"):
        return _answer(str(ended.get("message") or ""))
    waiting = mapping(state, "waiting")
    if waiting.get("reason") in PULL_ERRORS:
        return ProbeResult(f"its image cannot be pulled: {one_line(waiting.get('message'))}")
    if waited_seconds:
        scheduled = condition(status, "PodScheduled")
        why = one_line(scheduled.get("message")) if scheduled.get("status") == "False" else ""
        return ProbeResult(why or f"it did not end within {waited_seconds} s.")
    return None


def _answer(message: str) -> ProbeResult:
    try:
        found = json.loads(message)
        ttl = found["dns_ttl_seconds"]
        return ProbeResult(
            dns_error=one_line(harmless(str(found["dns_error"]))),
            dns_ttl_seconds=ttl if isinstance(ttl, int) else None,
            hub_error=one_line(harmless(str(found["hub_error"]))),
        )
    except (ValueError, KeyError, TypeError):
        return ProbeResult("its program ended without an answer.")
