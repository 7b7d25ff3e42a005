"""Roles as requested: each has its own engine kind, specification and weight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from inference_operator.api.autoscaling import AutoscalingBackend, AutoscalingSpec
from inference_operator.api.disaggregation import (
    PREFILL_BATCHED_TOKENS,
    PREFILL_SEQUENCES,
    DisaggregationSpec,
    PrefillSpec,
)
from inference_operator.api.effective_spec import EffectiveSpec, effective_spec
from inference_operator.api.engine_kind import EngineKind, EngineProfile
from inference_operator.api.hardware import Device
from inference_operator.api.spec import Spec
from inference_operator.engines.kv_transfer import KVTransfer, TransferRole
from inference_operator.engines.registry import EngineRegistry
from inference_operator.objects.child import content_hash
from inference_operator.objects.names import ENGINE, PREFILL
from inference_operator.settings import Settings
from inference_operator.sizing.shape import Objective


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


def prefill_spec(stated: Spec, asked: DisaggregationSpec) -> Spec:
    """The specification of the engines that compute prompts.

    Model, image, data types and arguments are those of the others: vLLM compares them before it moves a KV cache.
    """
    own, engine, on_gpus = asked.prefill, stated.engine, stated.hardware.device is Device.GPU
    batched = PREFILL_BATCHED_TOKENS if on_gpus else engine.max_num_batched_tokens
    sizes: dict[str, object] = {
        "max_num_seqs": own.engine.max_num_seqs or PREFILL_SEQUENCES,
        "max_num_batched_tokens": own.engine.max_num_batched_tokens or batched,
        "profile": EngineProfile.THROUGHPUT,
    }
    sizes.update(args=(*engine.args, *own.engine.args))
    replaced = {
        "disaggregation": DisaggregationSpec(network=asked.network),
        "engine": engine.model_copy(update=sizes),
        "replicas": own.replicas,
        "autoscaling": _autoscaling(stated.autoscaling, own),
    }
    if own.hardware:
        replaced["hardware"] = stated.hardware.model_copy(update={"gpu": own.hardware.gpu})
    if own.parallelism:
        replaced["parallelism"] = stated.parallelism.model_copy(update=own.parallelism.model_dump(exclude_none=True))
    return stated.model_copy(update=replaced)


def _autoscaling(others: AutoscalingSpec | None, own: PrefillSpec) -> AutoscalingSpec | None:
    """The autoscaling of prefill engines: their own numbers, and the objective and the delays of the others."""
    if own.autoscaling is None:
        return None
    limits = own.autoscaling.model_dump()
    base = others or AutoscalingSpec.model_validate({"maxReplicas": own.autoscaling.max_replicas})
    return base.model_copy(update=limits | _NOT_OF_PREFILL)


_NOT_OF_PREFILL = {"backend": AutoscalingBackend.BUILT_IN, "target_concurrency": None, "schedule": ()}
"""An HPA and KEDA act on `/scale`, and a number of requests or a time of the day is about the others."""


def transfer_of(stated: Spec, role: TransferRole) -> KVTransfer | None:
    """What a role knows of the other one before its plan is made; None for engines that do all themselves.

    The objective is a part of the revision: it bounds how long one side may take, and how long the other one waits.
    """
    if stated.disaggregation is None:
        return None
    objective = Objective.requested(stated.autoscaling).ttft
    engine = stated.engine.model_dump(mode="json", include=_EQUAL, exclude_defaults=True)
    shared = [stated.model.source, stated.model.revision, engine, objective]
    decodes = role is TransferRole.DECODE
    tokens = stated.disaggregation.min_prompt_tokens if decodes else None
    return KVTransfer(role, content_hash(shared), min_prompt_tokens=tokens or 0, objective=objective)


_EQUAL = {"args", "env", "dtype", "quantization", "kv_cache_dtype", "rope_scaling", "max_model_len"}
"""Fields of an engine that decide what is in a KV cache, or how a prompt becomes tokens."""
