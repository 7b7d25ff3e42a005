"""The slots for adapters: how many an engine can use in one batch, and their largest rank.

1. A field of the specification counts as it is.
2. Without it there are `DEFAULT_SLOTS` if the specification has adapters, and none otherwise.
3. Without it the rank is that of the largest adapter whose files were read, and at least `DEFAULT_ADAPTER_RANK`.
"""

from collections.abc import Mapping

from inference_operator.api.engine import ADAPTER_RANKS, DEFAULT_ADAPTER_RANK
from inference_operator.api.spec import Spec
from inference_operator.jobs.adapter import adapter_record
from inference_operator.manifest import Manifest, Owner, Ref
from inference_operator.objects.cache_volume import claim_name

DEFAULT_SLOTS = 4
"""Adapters in one batch. More may be listed: requests of a fifth wait until one of the four has none in the batch."""


def slotted_spec(spec: Spec, owner: Owner, live: Mapping[Ref, Manifest]) -> Spec:
    """The specification with the fields of the slots filled in; unchanged if it has no adapters and no slots."""
    slots = _slots(spec)
    if not slots:
        return spec
    rank = spec.engine.max_adapter_rank or _rank(spec, owner, live)
    engine = spec.engine.model_copy(update={"adapter_slots": slots, "max_adapter_rank": rank})
    return spec.model_copy(update={"engine": engine})


def _slots(spec: Spec) -> int:
    if spec.engine.adapter_slots is not None:
        return spec.engine.adapter_slots
    return DEFAULT_SLOTS if spec.model.adapters else 0


def _rank(spec: Spec, owner: Owner, live: Mapping[Ref, Manifest]) -> int:
    """The largest known rank, as a rank of slots."""
    records = (
        adapter_record(owner, adapter, claim_name(spec.cache, owner.key.name)) for adapter in spec.model.adapters
    )
    known = [stored.facts.rank for record in records if (stored := record.stored(live))]
    needed = max([DEFAULT_ADAPTER_RANK, *known])
    return next((rank for rank in ADAPTER_RANKS if rank >= needed), ADAPTER_RANKS[-1])
