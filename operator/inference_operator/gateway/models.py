"""The models of a namespace as a gateway sees them: their names, and where requests for them go."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.api.engine_kind import EngineKind
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource
from inference_operator.api.status import AdapterPhase
from inference_operator.manifest import Manifest
from inference_operator.models.source import model_source, repository_of
from inference_operator.router.service import SERVICE_PORT
from inference_operator.views.raw import mapping

ANY_NAME_VARIABLE = "VLLM_SKIP_MODEL_NAME_VALIDATION"
"""With `1`, vLLM takes any name for its base model (vLLM 0.32, entrypoints/serve/engine/serving.py)."""


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    names: tuple[str, ...]
    """Names that its engines serve: of the model, and of adapters that its routers advertise."""
    address: str
    """ClusterIP of its main Service."""
    hub_name: str = ""
    """The one of these names that nobody asked for: of several models of one repository, one has it."""
    reason: str = ""
    """Why it can neither answer nor be woken: a reason of its status; empty if it can."""
    takes_any_name: bool = False
    """Whether its engines check no names."""
    keeps_names: bool = False
    """Whether its specification cannot be read: its engines go on, and it has the names that it had."""

    @property
    def route(self) -> str:
        """Where its requests go, as gateways read it."""
        return f"{self.address}|{SERVICE_PORT}|{self.name}"

    def serves(self, name: str) -> bool:
        return self.takes_any_name or name in self.names


def model(resource: Resource, service: Manifest | None) -> Model:
    """An InferenceDeployment as a gateway sees it. A Service of another owner, even of the gateway, is not counted."""
    spec, key = resource.spec, resource.key
    own = service if service and resource.owner.owns(service) else {}
    address = str(mapping(own, "spec").get("clusterIP") or "")
    address = "" if address == "None" else address
    if isinstance(spec, Refusal):
        reason = _reason(resource, address)
        return Model(key.name, (key.name,), address, reason=reason, takes_any_name=True, keeps_names=True)
    source = model_source(spec.model.source, "spec.model.source")
    hub = "" if isinstance(source, Refusal) else repository_of(source)
    adapters = (one.name for one in resource.status.adapters if one.phase is AdapterPhase.READY)
    served = spec.model.served_name or key.name
    names = dict.fromkeys(filter(None, (served, hub, *adapters)))
    unchecked = any(variable.name == ANY_NAME_VARIABLE and variable.value == "1" for variable in spec.engine.env)
    kind = resource.status.engine.kind if resource.status.engine else ""
    return Model(
        key.name,
        tuple(names),
        address,
        "" if hub == served else hub,
        _reason(resource, address),
        takes_any_name=kind == EngineKind.LLAMA_CPP or (unchecked and not spec.model.adapters),
    )


def _reason(resource: Resource, address: str) -> str:
    ready, stalled = (resource.current_condition(kind) for kind in (ConditionType.READY, ConditionType.STALLED))
    if address and ready and ready.status == "True":
        spec = resource.spec
        # A drill lowers the live number alone, for a while: routers hold what comes.
        asleep = not isinstance(spec, Refusal) and spec.autoscaling is None and spec.replicas == 0
        return ready.reason if asleep and ready.reason == Reason.SCALED_TO_ZERO else ""
    if stalled and stalled.status == "True":
        return stalled.reason
    if ready and ready.reason == Reason.PAUSED:
        return ready.reason
    return "" if address else resource.status.reason or Reason.STARTING


def models_by_name(models: Mapping[str, Model]) -> Mapping[str, list[str]]:
    """The InferenceDeployments that claim each name: those that ask for it first, in the order of their own names."""
    claims: dict[str, list[str]] = {}
    for owner in sorted(models):
        for name in models[owner].names:
            claims.setdefault(name, []).append(owner)
    for name, claimants in claims.items():
        claimants.sort(key=lambda owner: models[owner].hub_name == name)
    return claims
