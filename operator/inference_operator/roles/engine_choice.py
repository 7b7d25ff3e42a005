"""The engine of a role.

1. A specification that names a kind gets its engine. The engine must know the architecture of the model, except the
   default one: plugins and newer images may know more than the operator.
2. With `Auto`, a recorded plan of the same specification keeps its engine, also where it is sized again.
3. With `Auto`, a model of an unknown architecture, or one that generates no text, gets the default engine.
4. With `Auto`, any other model gets the first engine that knows its architecture and reads its weights, in the order of
   the registry. If none does, it gets the default engine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.model_access import Support
from inference_operator.engines.registry import EngineRegistry
from inference_operator.models.checkpoint import WeightFormat, format_of
from inference_operator.models.facts import ModelFacts
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.roles.spec import RoleSpec
from inference_operator.sentences import sentences
from inference_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine of a role, and why it was chosen."""

    name: str = ""
    """Name of the engine in the registry."""
    implementation: str = ""
    """The implementation of the model that it must use, by its own name; empty: its own choice."""
    why: str = ""
    """Why it was chosen, and what users lose with it, in sentences; empty for the first choice without a loss."""

    @classmethod
    def of_plan(cls, plan: PinnedPlan) -> "EngineChoice":
        """The choice that a plan was made with."""
        return cls(plan.engine, plan.plan.implementation, plan.plan.engine_choice)


NO_CHOICE = EngineChoice()
"""Nothing was chosen: the engine is the one that was asked for."""


@dataclass(frozen=True, slots=True)
class ChoiceInputs:
    """The inputs of a choice."""

    role: RoleSpec
    architecture: str
    """That of the model; empty if it is unknown."""
    facts: ModelFacts | None
    """The facts of the model, if they are known."""
    engines: EngineRegistry
    settings: Settings

    def support(self, name: str) -> Support:
        """Whether an engine runs the model."""
        engine, stated = self.engines[name], self.role.stated
        weights = self._weights
        if weights is not None and weights not in engine.formats:
            return Support(f"{name} does not read weights that are {weights.value}.")
        return engine.support(self.architecture, image=engine.desired_image(stated, self.settings))

    @property
    def _weights(self) -> WeightFormat | None:
        return format_of(self.facts.weights_from) if self.facts else None


def engine_choice(inputs: ChoiceInputs) -> EngineChoice | Refusal:
    """The engine of a role without a plan that stays, or why the engine that it names cannot run the model."""
    return _automatic(inputs) if inputs.role.is_automatic else _named(inputs)


def _named(inputs: ChoiceInputs) -> EngineChoice | Refusal:
    name = inputs.role.engine
    support = inputs.support(name)
    if support.obstacle and name != inputs.engines.default:
        cure = "Use another model, or `spec.engine.kind: Auto`."
        return Refusal(Reason.UNSUPPORTED_ARCHITECTURE, "spec.engine.kind", support.obstacle, cure)
    return EngineChoice(name, support.implementation, support.lost)


def _automatic(inputs: ChoiceInputs) -> EngineChoice:
    default = inputs.engines.default
    if not inputs.architecture or (inputs.facts and inputs.facts.is_pooling):
        return EngineChoice(default)
    links = list(_links(inputs))
    chosen = next(((name, support) for name, support in links if not support.obstacle), None)
    if chosen is None:
        return EngineChoice(default)
    name, support = chosen
    if name == default:
        return EngineChoice(name, support.implementation, support.lost)
    obstacles = (support.obstacle for _, support in links[: links.index(chosen)])
    return EngineChoice(name, support.implementation, sentences(f"The engine is {name}.", *obstacles, support.lost))


def _links(inputs: ChoiceInputs) -> Iterator[tuple[str, Support]]:
    return ((name, inputs.support(name)) for name in inputs.engines.in_order)
