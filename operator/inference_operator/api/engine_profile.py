"""`spec.engine.profile`: what sizing prefers among the sizes that fit."""

from enum import StrEnum


class EngineProfile(StrEnum):
    """What sizing prefers among the sizes that fit."""

    BALANCED = "Balanced"
    """The most requests per second for the cost that keep the latency objective."""
    THROUGHPUT = "Throughput"
    """The most requests per second for the cost, without an objective."""
    LATENCY = "Latency"
    """The least time of a token."""
    SMALLEST = "Smallest"
    """The fewest GPUs."""
