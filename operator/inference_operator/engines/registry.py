"""The registry of engines: resolves the engine name that a pinned plan carries."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.engines.base import Engine
from inference_operator.engines.vllm.vllm import Vllm

VLLM = "VLLM"


@dataclass(frozen=True, slots=True)
class EngineRegistry:
    """Engines by name.

    Examples:
        >>> sorted(ENGINES.by_name), ENGINES.default
        (['VLLM'], 'VLLM')
    """

    by_name: Mapping[str, Engine]
    default: str
    """Name of the engine that runs where the specification names none."""

    def __getitem__(self, name: str) -> Engine:
        """The engine of this name; raises `KeyError` where this release has none."""
        return self.by_name[name]

    def __contains__(self, name: str) -> bool:
        """Whether this release has an engine of this name."""
        return name in self.by_name

    def get(self, name: str) -> Engine | None:
        """The engine of this name; None where this release has none."""
        return self.by_name.get(name)


ENGINES = EngineRegistry({VLLM: Vllm()}, default=VLLM)
"""The engines of this release."""
