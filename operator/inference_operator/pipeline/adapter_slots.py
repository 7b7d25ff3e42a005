"""The slots for adapters: how many an engine can use in one batch, and their largest rank.

1. A field of the specification counts as it is.
2. Without it there are no fewer slots, and no smaller ones, than engines of the recorded plan have. So a change of the
   list restarts engines only if an adapter does not fit into their slots.
3. With adapters there are at least `DEFAULT_SLOTS`, and each adapter whose files were read fits.
"""

from collections.abc import Mapping

from inference_operator.api.spec import Spec
from inference_operator.jobs.adapter import adapter_record
from inference_operator.manifest import Manifest, Owner, Ref
from inference_operator.objects.cache_volume import claim_name
from inference_operator.sizing.plan import Plan

DEFAULT_SLOTS = 4
"""Adapters in one batch. More may be listed: requests of a fifth wait until one of the four has none in the batch."""
DEFAULT_RANK = 16
"""The engine's own default (vLLM 0.32.0, `config/lora.py`), and the rank of most adapters."""
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks of slots (vLLM 0.32.0, `config/lora.py`, `MaxLoRARanks`)."""


def slotted_spec(spec: Spec, recorded: Plan | None, owner: Owner, live: Mapping[Ref, Manifest]) -> Spec:
    """The specification with the fields of the slots filled in; unchanged if it has no adapters and no slots.

    Args:
        spec: the specification as its user wrote it.
        recorded: the plan of the live engines; None without one.
        owner: the resource.
        live: its live children, with the records of its adapters.
    """
    slots = _slots(spec, recorded)
    if not slots:
        return spec
    rank = spec.engine.max_adapter_rank or _rank(spec, recorded, owner, live)
    engine = spec.engine.model_copy(update={"adapter_slots": slots, "max_adapter_rank": rank})
    return spec.model_copy(update={"engine": engine})


def _slots(spec: Spec, recorded: Plan | None) -> int:
    if spec.engine.adapter_slots is not None:
        return spec.engine.adapter_slots
    if spec.cache is None:
        return 0
    former = recorded.adapter_slots if recorded else 0
    return max(former, DEFAULT_SLOTS if spec.model.adapters else 0)


def _rank(spec: Spec, recorded: Plan | None, owner: Owner, live: Mapping[Ref, Manifest]) -> int:
    """The largest known rank, as a rank of slots."""
    records = (adapter_record(owner, one, claim_name(spec.cache, owner.key.name)) for one in spec.model.adapters)
    known = [stored.facts.rank for record in records if (stored := record.stored(live))]
    needed = max([DEFAULT_RANK, recorded.adapter_rank if recorded else 0, *known])
    return next((rank for rank in RANKS if rank >= needed), RANKS[-1])
