"""Lists the autoscalers of a namespace. Runs only when a lookup needs it."""

from inference_operator.kube.free_gpus import Reader
from inference_operator.manifest import HORIZONTAL_POD_AUTOSCALER
from inference_operator.views.lookups import AutoscalersLookup, OtherAutoscalers
from inference_operator.views.other_autoscaler import other_autoscaler


async def other_autoscalers(reader: Reader, look: AutoscalersLookup) -> OtherAutoscalers:
    """The HorizontalPodAutoscalers of a namespace; KEDA acts through such objects too."""
    listed = reader.each(HORIZONTAL_POD_AUTOSCALER, namespace=look.namespace)
    found = [view async for manifest in listed if (view := other_autoscaler(manifest))]
    return OtherAutoscalers(look.seen, tuple(sorted(found)))
