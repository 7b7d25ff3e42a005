"""The network that NCCL uses between nodes, from the log of a start to the status."""

from inference_operator.api.conditions import Condition
from inference_operator.api.status import EngineStatus, NetworkStatus
