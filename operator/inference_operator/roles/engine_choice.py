"""The engine of a role.

1. A specification that names a kind gets its engine. The engine must know the architecture of the model, except the
   default one: plugins and newer images may know more than the operator.
2. With `Auto`, a recorded plan of the same specification keeps its engine, also where it is sized again.
3. With `Auto`, a model of an unknown architecture, or one that generates no text, gets the default engine.
4. With `Auto`, any other model gets the first engine that knows its architecture and reads its weights, in the order of
   the registry. If none does, it gets the default engine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.model_access import Support
from inference_operator.engines.registry import EngineRegistry
from inference_operator.models.checkpoint import format_of
from inference_operator.models.facts import ModelFacts
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.roles.spec import RoleSpec
from inference_operator.sentences import sentences
from inference_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class EngineChoice:
    name: str = ""
    implementation: str = ""
    """The implementation of the model that it must use, by its own name; empty: its own choice."""
    why: str = ""
    """Why it was chosen, and what users lose with it, in sentences; empty for the first choice without a loss."""

    @classmethod
    def of_plan(cls, plan: PinnedPlan) -> "EngineChoice":
        return cls(plan.engine, plan.plan.implementation, plan.plan.engine_choice)


NO_CHOICE = EngineChoice()
"""Nothing was chosen: the engine is the one that was asked for."""


_SupportOf: TypeAlias = Callable[[str], Support]
"""Whether the engine of this name runs the model."""


def engine_choice(
    role: RoleSpec, architecture: str, facts: ModelFacts | None, engines: EngineRegistry, settings: Settings
) -> EngineChoice | Refusal:
    """The engine of a role without a plan that stays, or why the engine that it names cannot run the model."""

    def support_of(name: str) -> Support:
        engine, weights = engines[name], format_of(facts.weights_from) if facts else None
        if weights is not None and weights not in engine.formats:
            return Support(f"{name} does not read weights that are {weights.value}.")
        return engine.support(architecture, image=engine.desired_image(role.stated, settings))

    if not role.is_automatic:
        return _named(role.engine, engines.default, support_of)
    if not architecture or (facts and facts.is_pooling):
        return EngineChoice(engines.default)
    return _automatic(engines, support_of)


def _named(name: str, default: str, support_of: _SupportOf) -> EngineChoice | Refusal:
    support = support_of(name)
    if support.obstacle and name != default:
        cure = "Use another model, or `spec.engine.kind: Auto`."
        return Refusal(Reason.UNSUPPORTED_ARCHITECTURE, "spec.engine.kind", support.obstacle, cure)
    return EngineChoice(name, support.implementation, support.lost)


def _automatic(engines: EngineRegistry, support_of: _SupportOf) -> EngineChoice:
    links = [(name, support_of(name)) for name in engines.in_order]
    chosen = next(((name, support) for name, support in links if not support.obstacle), None)
    if chosen is None:
        return EngineChoice(engines.default)
    name, support = chosen
    if name == engines.default:
        return EngineChoice(name, support.implementation, support.lost)
    obstacles = (support.obstacle for _, support in links[: links.index(chosen)])
    return EngineChoice(name, support.implementation, sentences(f"The engine is {name}.", *obstacles, support.lost))
