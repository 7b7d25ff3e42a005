"""How long engines are waited for."""

from inference_operator.api.spec import Spec
from inference_operator.engines.engine import Patience
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.startup import startup_seconds


def patience(spec: Spec, plan: Plan, settings: Settings) -> Patience:
    """As asked; how long a start may take follows else from the size of the checkpoint."""
    asked = spec.startup_timeout
    return Patience(
        startup=int(asked.total_seconds()) if asked else startup_seconds(plan.weight_bytes),
        staleness=settings.dns_staleness_seconds,
        drain=int(spec.drain_timeout.total_seconds()),
    )
