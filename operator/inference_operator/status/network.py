"""The network by which NCCL connects the nodes of an engine, as the log of a start reports it."""

from collections.abc import Sequence

from inference_operator.api.status import EngineStatus, NetworkStatus
from inference_operator.engines.group.network import SOCKETS, network_in_use
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.lookups import LogText
from inference_operator.views.pod import PodView


def network(
    inputs: Inputs, recorded: EngineStatus | None, template: str | None, pods: Sequence[PodView], resource: str | None
) -> NetworkStatus | None:
    """The network of the engines of a template, if they ask for network devices of a resource.

    It is read from status while the template stays: the log of a start is read only until the engine serves.
    """
    if template is None:
        return None
    starting = (pod.start for pod in pods if pod.template == template)
    logs = (inputs.lookups.get(start.log) for start in starting if start and start.log)
    in_use = next(filter(None, (network_in_use(log.text) for log in logs if isinstance(log, LogText))), "")
    if in_use and resource:
        return NetworkStatus(in_use=in_use, resource=resource, pod_template_hash=template)
    before = recorded.network if recorded else None
    return before if before and before.pod_template_hash == template else None


def slow_network(status: NetworkStatus | None) -> str:
    """A sentence about engines that do not use their network devices; empty if they do, or if it is not known."""
    if status is None or status.in_use != SOCKETS:
        return ""
    return (
        "NCCL connects the nodes by TCP sockets (`NET/Socket`), which is slow, and not by"
        f" `{status.resource}`: look for the cause in the lines with `NCCL` of an engine's log. It may be an image"
        " without the plugin of this network, or a limit on locked memory."
    )
