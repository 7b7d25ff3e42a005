"""Which image engines run, and what is said of one that stands."""

from inference_operator.api.spec import Device, Spec
from inference_operator.settings import Settings


def wanted_image(spec: Spec, settings: Settings) -> str:
    """The image that is asked for, or the operator's default for the device."""
    default = settings.gpu_engine_image if spec.hardware.device is Device.GPU else settings.cpu_engine_image
    return spec.engine.image or default


def older_image(standing: str, spec: Spec, settings: Settings) -> str:
    """That engines stay on an image which is no longer the default, in a sentence; empty if they do not."""
    default = wanted_image(spec, settings)
    if standing == default:
        return ""
    return (
        f"The engine stays on `{standing}`; this operator's default is `{default}`:"
        " set `spec.engine.image` to it to move, which restarts the engines one by one."
    )
