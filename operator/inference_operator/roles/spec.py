"""Roles as requested: each has its own engine kind, specification and weight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from inference_operator.api.effective_spec import EffectiveSpec, effective_spec
from inference_operator.api.engine_kind import EngineKind
from inference_operator.api.spec import Spec
from inference_operator.engines.kv_transfer import KVTransfer, TransferRole
from inference_operator.engines.registry import EngineRegistry
from inference_operator.objects.names import ENGINE, PREFILL
from inference_operator.roles.disaggregation import prefill_spec, transfer_of
from inference_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """A role that a specification requests. Replicas, sizes, hardware and image are those of its own specification."""

    name: str
    """Name of the role: the component label of its objects and the name of its container."""
    engine: str
    effective: EffectiveSpec
    """Its specification over the administrator's defaults: its pods are built from it."""
    is_automatic: bool = False
    """Whether the operator may choose another engine for the model: `spec.engine.kind` is `Auto`."""
    weight: int = 1
    """Weight of each of its engines, relative to the engines of the other roles. The router sends none to one of 0."""
    has_scale: bool = False
    """Whether it is the role that `/scale` is about: its `replicas` are those of the InferenceDeployment, its decisions
    stand in the status itself, and Jobs read the model with its engine's identity. One role of several says so."""
    transfer: KVTransfer | None = None
    """How it works with the other role, if one computes prompts and one the answers; its revision is that of what is
    requested. None for engines that do both."""

    @property
    def computes_prompts(self) -> bool:
        """Whether its engines compute prompts for those of another role, which alone answer clients."""
        return self.transfer is not None and self.transfer.role is TransferRole.PREFILL

    @property
    def stated(self) -> Spec:
        """Its specification as the user wrote it: hashes of requests are made from it."""
        return self.effective.stated


RolePolicy: TypeAlias = Callable[[Spec, Settings, EngineRegistry], Sequence[RoleSpec]]
"""The roles of a valid specification; at least one. They differ in anything but model, claim, adapters and router."""


def role_spec(
    name: str, engine: str, stated: Spec, settings: Settings, *, weight: int = 1, has_scale: bool = False
) -> RoleSpec:
    effective = effective_spec(stated, settings.engine_defaults, settings.router_defaults)
    return RoleSpec(name, engine, effective, weight=weight, has_scale=has_scale)


def requested_roles(stated: Spec, settings: Settings, engines: EngineRegistry) -> tuple[RoleSpec, ...]:
    """The roles of an InferenceDeployment: one with the whole specification, and with `disaggregation` one for prompts.

    Prompts and answers apart need vLLM: `Auto` is nothing else then.
    """
    kind, apart = stated.engine.kind, stated.disaggregation
    role = role_spec(ENGINE, engines.of_kind(kind), stated, settings, has_scale=True)
    if apart is None:
        return (replace(role, is_automatic=kind is EngineKind.AUTO),)
    prefill = role_spec(PREFILL, role.engine, prefill_spec(stated, apart), settings, weight=0)
    return (
        replace(role, transfer=transfer_of(stated, TransferRole.DECODE)),
        replace(prefill, transfer=transfer_of(stated, TransferRole.PREFILL)),
    )
