"""The protocol of an inference engine such as vLLM. Each of its parts stands with its values in a module of its own."""

from typing import Protocol

from inference_operator.engines.model_access import ModelAccess
from inference_operator.engines.process import Process
from inference_operator.engines.sizes import Sizing
from inference_operator.engines.start_log import StartLog
from inference_operator.engines.telemetry import Telemetry
from inference_operator.engines.validation import SpecValidation


class Engine(SpecValidation, Sizing, ModelAccess, Process, StartLog, Telemetry, Protocol):
    """One kind of engine."""
