"""Compute resources of an engine: what sizing decided, what the user replaces, and the GPUs."""

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.hardware.offers import VENDOR
from inference_operator.manifest import Manifest
from inference_operator.objects.quantity import canonical, value
from inference_operator.sizing.plan import Plan


def refusal_of_resources(asked: ResourcesSpec, field: str = "spec.engine.resources") -> Refusal | None:
    """Why the resources cannot be given as asked, or None."""
    for part, amounts in (("requests", asked.requests), ("limits", asked.limits)):
        if gpus := next((name for name in amounts if name.startswith(VENDOR)), None):
            return Refusal(
                Reason.MANAGED_ARGUMENT,
                f"{field}.{part}[{gpus}]",
                "the number of GPUs is the tensor parallel size times the pipeline's.",
                "Use `spec.parallelism`, and `spec.hardware.gpu.resourceName` for another resource.",
            )
    for name, request in asked.requests.items():
        limit = asked.limits.get(name)
        if limit is not None and value(request) > value(limit):
            return Refusal(
                Reason.INVALID_SPEC,
                f"{field}.requests[{name}]",
                f"`{request}` is more than the limit `{limit}`.",
                "Lower the request or raise the limit.",
            )
    return None


def requirements(asked: ResourcesSpec, plan: Plan) -> Manifest:
    """Requests and limits of the engine's container.

    A limit without a request is the request too, as Kubernetes has it; the API server leaves empty limits out.
    """
    sized = {"cpu": plan.cpu, "memory": plan.memory, "ephemeral-storage": plan.ephemeral_storage}
    gpus = {plan.resource: str(plan.gpus_per_replica)} if plan.gpus_per_replica else {}
    given = stated(asked)
    limits = given.get("limits", {})
    requests = {**sized, **given.get("requests", {}), **gpus}
    return {"requests": requests, **({"limits": {**limits, **gpus}} if limits or gpus else {})}


def stated(asked: ResourcesSpec) -> Manifest:
    """Requests and limits as asked, in canonical form; a limit without a request is the request too."""
    limits = {name: canonical(amount) for name, amount in asked.limits.items()}
    requests = {**limits, **{name: canonical(amount) for name, amount in asked.requests.items()}}
    both = {"requests": requests, "limits": limits}
    return {part: amounts for part, amounts in both.items() if amounts}
