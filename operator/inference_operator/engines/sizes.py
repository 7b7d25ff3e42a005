"""The sizes of an engine: which options decide them, what it needs of GPUs, and how it uses their memory."""

from dataclasses import dataclass
from typing import Protocol

from inference_operator.api.engine import EngineSpec
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import EngineOnGpus
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.shape import Shape


@dataclass(frozen=True, slots=True)
class Parsers:
    """The engine's parsers of a model's answers, by the engine's names; empty where there is none."""

    tool_call: str = ""
    """Parser of tool calls."""
    reasoning: str = ""
    """Parser of reasoning."""


class Sizing(Protocol):
    """The sizes of one kind of engine."""

    def gpu_needs(self, spec: EngineSpec, /, image: str) -> GpuNeeds:
        """The needs of this image: GPUs and their driver."""

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> EngineOnGpus:
        """This image's engine on these GPUs; it uses more memory by what one reported beyond the estimate."""

    def cpu_needs(self, facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
        """The memory of an engine on CPUs, for a model that may be unknown."""

    def shape(self, spec: EngineSpec, /) -> Shape:
        """The engine's options that decide sizing, except the number of GPUs."""

    def parsers(self, image: str, *, model: str, architecture: str) -> Parsers:
        """The parsers that this image's engine needs for the answers of a model; `model` is a repository or path."""
