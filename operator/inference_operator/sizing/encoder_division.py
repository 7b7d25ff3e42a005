"""How tensor parallelism divides the encoder of images, where its layers cannot be divided as the language model's are.

The heads of an encoder, and the width of its MLP, are often no multiple of the tensor parallel size: the encoder of
GLM-4.5V has 12 heads, its language model 96. Then each rank gets the whole encoder, if the engine can do so; it takes
memory on each GPU. Otherwise the size is not allowed.
"""

from collections.abc import Collection
from dataclasses import dataclass

from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.shape import Shape


@dataclass(frozen=True, slots=True)
class EncoderDivision:
    """The engine's rules for the encoders of its architectures."""

    whole: Collection[str] = ()
    """Architectures whose encoder each rank can have as a whole."""
    divided: tuple[str, ...] = ()
    """Beginnings of other architectures, whose encoder is always divided."""

    def needs_whole(self, facts: ModelFacts, shape: Shape) -> bool:
        return facts.architecture in self.whole and not _is_divisible(facts, shape)

    def broken_rule(self, facts: ModelFacts, shape: Shape) -> str | None:
        """Why the encoder does not allow the tensor parallel size, in one sentence; None if it does."""
        tower, tensor = facts.tower, shape.parallel.tensor
        divided = facts.architecture in self.whole or facts.architecture.startswith(self.divided or "-")
        if tower is None or not divided or _is_divisible(facts, shape) or self._is_whole(facts, shape):
            return None
        if tower.heads % tensor:
            return f"{tower.heads} attention heads of the encoder of images are not divisible by {tensor}."
        return f"MLPs of the encoder of images are {tower.width} wide, which is not divisible by {tensor}."

    def _is_whole(self, facts: ModelFacts, shape: Shape) -> bool:
        requested = shape.whole_encoder
        return facts.architecture in self.whole and requested is not False


def _is_divisible(facts: ModelFacts, shape: Shape) -> bool:
    return facts.tower is None or facts.tower.divisible(shape.parallel.tensor)
