"""Lists the autoscalers of a namespace. Runs only when a lookup needs it."""

from inference_operator.kube.free_gpus import Reader
from inference_operator.manifest import HORIZONTAL_POD_AUTOSCALER
from inference_operator.views.foreign_autoscaler import foreign_autoscaler
from inference_operator.views.lookups import ForeignAutoscalers, ForeignAutoscalersLookup


async def foreign_autoscalers(reader: Reader, look: ForeignAutoscalersLookup) -> ForeignAutoscalers:
    """The HorizontalPodAutoscalers of a namespace; KEDA acts through such objects too."""
    listed = reader.each(HORIZONTAL_POD_AUTOSCALER, namespace=look.namespace)
    found = [view async for manifest in listed if (view := foreign_autoscaler(manifest))]
    return ForeignAutoscalers(look.seen, tuple(sorted(found)))
