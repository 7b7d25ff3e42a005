"""Which engine runs the models; whoever starts, watches or explains one asks here."""

from inference_operator.engines.engine import Engine
from inference_operator.engines.vllm.vllm import Vllm


def chosen_engine() -> Engine:
    """The engine: vLLM, the only one there is."""
    return Vllm()
