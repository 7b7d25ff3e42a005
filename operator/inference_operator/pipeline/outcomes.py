"""What a decision of any kind says, and the four possible outcomes of one about an InferenceDeployment."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.jobs.attempts import JobWait
from inference_operator.jobs.result import Failure
from inference_operator.pipeline.part import Hold, Sum
from inference_operator.pipeline.role import Role
from inference_operator.pipeline.routing import Routing
from inference_operator.planning.known_model import KnownModel
from inference_operator.roles.context import SharedContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.router.children import RouterObjects
from inference_operator.workload.eviction.drain import NO_MOVE, Move


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Sum):
    """The fields of every outcome. All but those of the model are the sum of its parts."""

    model: KnownModel | None = None
    model_failure: Failure | None = None
    """Why the model's files could not be read; None if they were, or need not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Outcome):
    """The specification can be served."""

    shared: SharedContext
    roles: tuple[Role, ...]
    routing: Routing
    router: RouterObjects
    router_move: Move = NO_MOVE
    hold: Hold = Hold.NOTHING

    @property
    def is_frozen(self) -> bool:
        """Whether nothing at all is changed, since signatures that the owner requires are not verified yet."""
        return self.hold is Hold.ALL

    @property
    def scaled_role(self) -> Role:
        """The role that `/scale` is about."""
        return next(role for role in self.roles if role.context.spec.has_scale)

    @property
    def plan(self) -> PinnedPlan:
        return self.scaled_role.plan

    @property
    def engine_moves(self) -> Sequence[Move]:
        return [role.change.move for role in self.roles]

    @property
    def outdated_engines(self) -> Reason | None:
        """Why a renewal would change engines, the worst of all roles; None if they are as this release builds them."""
        reasons = {role.used.outdated for role in self.roles}
        return next(
            (reason for reason in (Reason.ENGINES_VULNERABLE, Reason.ENGINES_OUTDATED) if reason in reasons), None
        )

    @property
    def advisories(self) -> str:
        """A notice about known vulnerabilities of the engines' versions; empty if none is known."""
        return " ".join(dict.fromkeys(filter(None, (role.advisories for role in self.roles))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Outcome):
    """The specification cannot be served. Running pods keep running."""

    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsInspection(Outcome):
    """The model has to be inspected before anything can be decided. Running pods keep running."""

    wait: JobWait


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Outcome):
    """The user paused the resource. Nothing is changed: no stalled pod is deleted, taken out of traffic or back in.

    Only a budget opens for a drain, which would wait for ever.
    """
