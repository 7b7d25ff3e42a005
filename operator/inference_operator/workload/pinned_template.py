"""The pinned pod template of engines: running engines keep it, so that an operator upgrade does not restart them."""

from dataclasses import dataclass
from typing import TypeAlias

from pydantic import TypeAdapter

from inference_operator.api.disaggregation import MIN_PROMPT_TOKENS
from inference_operator.api.spec import Spec
from inference_operator.engines.kv_transfer import KVTransfer, TransferRole
from inference_operator.manifest import Manifest
from inference_operator.objects.child import content_hash
from inference_operator.objects.pinned import PinAnnotation, Pinned
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sizing.stored_plan import stored_pod_sizes

_NOT_OF_ENGINES: dict[str, bool | set[str]] = {
    **dict.fromkeys(("replicas", "autoscaling", "rollout", "router", "paused", "disaggregation"), True),
    "model": {"adapters"},
    "cache": {"size", "storage_class_name", "access_mode", "when_deleted"},
    "scheduling": {"gang"},
}
"""Fields of a specification that do not change an engine's pod. The plan's inputs tell whether there is a cache."""


@dataclass(frozen=True, slots=True)
class EngineContent:
    template: Manifest

    @property
    def hashed(self) -> object:
        return self.template


PinnedTemplate: TypeAlias = Pinned[EngineContent]

ENGINE_PIN = PinAnnotation("inference-operator.dev/engine-template", TypeAdapter(EngineContent))


def template_inputs_hash(spec: Spec, pinned: PinnedPlan, transfer: KVTransfer | None = None) -> str:
    """Hash of everything that a template is built from, settings and release aside.

    Fields with their default value are left out. So a field of a later release, or another default, changes nothing
    for those who do not use it.
    """
    scheduling = spec.scheduling.model_copy(update={"eviction_wait": None})  # a section with nothing else is a default
    stated = spec.model_copy(update={"scheduling": scheduling})
    requested = stated.model_dump(mode="json", exclude=_NOT_OF_ENGINES, exclude_defaults=True)
    apart = []
    if transfer and spec.disaggregation:
        unread = {"gigabits_per_second"} if transfer.role is TransferRole.PREFILL else None
        network = spec.disaggregation.network.model_dump(mode="json", exclude_defaults=True, exclude=unread)
        apart = [transfer.role.name, transfer.revision, *_sent(transfer), network]
    return content_hash([requested, pinned.spec_hash, pinned.image, stored_pod_sizes(pinned.plan), *apart])


def _sent(transfer: KVTransfer) -> list[object]:
    """The stated length of prompts that are sent; without one `MIN_PROMPT_TOKENS`, the default before plans had one.

    Engines of that default serve on. The same number, where it is stated, is marked: the plan may say another one.
    """
    if transfer.role is TransferRole.PREFILL:
        return [0]
    stated = transfer.min_prompt_tokens
    return [stated or MIN_PROMPT_TOKENS, *(["stated"] if stated == MIN_PROMPT_TOKENS else [])]
