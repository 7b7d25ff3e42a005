"""Resource requests and limits of an engine: the sized amounts, the user's replacements, and the GPUs."""

from collections.abc import Mapping

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.hardware import NetworkSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.hardware.resources import is_gpu
from inference_operator.manifest import Manifest
from inference_operator.quantity import canonical, multiplied, value
from inference_operator.sizing.plan import Plan

NO_NETWORK = NetworkSpec()


def refusal_of_resources(requested: ResourcesSpec, field: str = "spec.engine.resources") -> Refusal | None:
    for part, amounts in (("requests", requested.requests), ("limits", requested.limits)):
        if gpus := next((name for name in amounts if is_gpu(name)), None):
            return Refusal(
                Reason.MANAGED_ARGUMENT,
                f"{field}.{part}[{gpus}]",
                "the number of GPUs is the tensor parallel size times the pipeline parallel size.",
                "Use `spec.parallelism`, and `spec.hardware.gpu.resourceName` for another resource.",
            )
    for name, request in requested.requests.items():
        limit = requested.limits.get(name)
        if limit is not None and value(request) > value(limit):
            return Refusal(
                Reason.INVALID_SPEC,
                f"{field}.requests[{name}]",
                f"`{request}` is more than the limit `{limit}`.",
                "Lower the request or raise the limit.",
            )
    return None


def refusal_of_network_devices(
    requested: ResourcesSpec, network: NetworkSpec, field: str = "spec.hardware.network"
) -> Refusal | None:
    name = network.resource or ""
    if is_gpu(name):
        cure = "Name the resource of network devices, for example `rdma/hca_shared_devices_a`."
        return Refusal(Reason.INVALID_SPEC, f"{field}.resource", f"`{name}` is a GPU.", cure)
    part = next((part for part in ("requests", "limits") if name in getattr(requested, part)), "")
    if not part:
        return None
    problem, cure = f"`{field}.resource` names it too.", "Remove it; `count` there is the amount."
    return Refusal(Reason.MANAGED_ARGUMENT, f"spec.engine.resources.{part}[{name}]", problem, cure)


def requirements(
    requested: ResourcesSpec, plan: Plan, limit_ratio: Mapping[str, float], network: NetworkSpec = NO_NETWORK
) -> Manifest:
    """Requests and limits of the engine's container, in each of its pods.

    A limit without a request also becomes the request, as in Kubernetes. The API server omits empty limits.
    The ratio of a limit to its request is for resources to which the user gives no limit.
    """
    sized = {"cpu": plan.cpu, "memory": plan.memory, "ephemeral-storage": plan.ephemeral_storage}
    devices = {plan.resource: str(plan.gpus_per_pod)} if plan.gpus_per_pod else {}
    devices |= {network.resource: str(network.devices)} if network.resource else {}
    replaced = stated(requested)
    requests = {**sized, **replaced.get("requests", {}), **devices}
    limits = {
        **{name: multiplied(requests[name], ratio) for name, ratio in limit_ratio.items()},
        **replaced.get("limits", {}),
    }
    return {"requests": requests, **({"limits": {**limits, **devices}} if limits or devices else {})}


def stated(requested: ResourcesSpec) -> Manifest:
    """The user's requests and limits in canonical form; a limit without a request also becomes the request."""
    limits = {name: canonical(amount) for name, amount in requested.limits.items()}
    requests = {**limits, **{name: canonical(amount) for name, amount in requested.requests.items()}}
    both = {"requests": requests, "limits": limits}
    return {part: amounts for part, amounts in both.items() if amounts}
