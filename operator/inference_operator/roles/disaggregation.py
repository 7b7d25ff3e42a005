"""Prompts and answers computed apart: the role of the engines that compute prompts, and what both roles agree on."""

from inference_operator.api.autoscaling import AutoscalingBackend, AutoscalingSpec
from inference_operator.api.disaggregation import (
    PREFILL_BATCHED_TOKENS,
    PREFILL_SEQUENCES,
    DisaggregationSpec,
    PrefillSpec,
)
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.api.hardware import Device
from inference_operator.api.spec import Spec
from inference_operator.engines.kv_transfer import KVTransfer, TransferRole
from inference_operator.objects.child import content_hash
from inference_operator.sizing.shape import Objective


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
