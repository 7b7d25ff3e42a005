"""The sum of all parts of an outcome: the only place that adds them.

The order of the parts changes nothing. Two parts that write one thing are a mistake of this program, and raise: the
status says that the operator has failed, nothing is changed, and the reconcile is tried again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from inference_operator.fleet.rollout_slots import FleetState
from inference_operator.manifest import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    HORIZONTAL_POD_AUTOSCALER,
    HTTP_ROUTE,
    INFERENCE_POOL,
    INGRESS,
    NETWORK_POLICY,
    SCALED_OBJECT,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.objects.names import PROGRAM, component_of
from inference_operator.objects.pod_patch import PodPatch
from inference_operator.pipeline.outcomes import Outcome
from inference_operator.pipeline.part import Feature, Part
from inference_operator.sentences import sentences

_APPLY_ORDER: Mapping[Kind, int] = {
    SERVICE: 1,
    DEPLOYMENT: 2,
    STATEFUL_SET: 2,
    NETWORK_POLICY: 3,
    DISRUPTION_BUDGET: 4,
    INGRESS: 5,
    HTTP_ROUTE: 6,
    INFERENCE_POOL: 6,
    HORIZONTAL_POD_AUTOSCALER: 7,
    SCALED_OBJECT: 8,
}
"""Kinds in the order in which they are applied: ConfigMaps first, since Deployments mount them."""

_FEATURE_ORDER = {feature: number for number, feature in enumerate(Feature)}

_Verdict = TypeVar("_Verdict", bound=Outcome)
_Value = TypeVar("_Value")


class DoubledWriteError(Exception):
    """Two parts of an outcome write the same thing."""


def summed(verdict: _Verdict, parts: Iterable[Part]) -> _Verdict:
    ordered = sorted(parts, key=lambda part: _FEATURE_ORDER[part.feature])
    features = [part.feature for part in ordered]
    if doubled := {feature.value for feature in features if features.count(feature) > 1}:
        raise DoubledWriteError(f"several parts of {', '.join(sorted(doubled))}")
    return replace(
        verdict,
        desired=_desired(ordered),
        lookups=tuple(dict.fromkeys(lookup for part in ordered for lookup in part.lookups)),
        due=min((part.due for part in ordered if part.due), default=None),
        notice=sentences(*(part.notice for part in ordered)),
        model_wait=next((part.model_wait for part in ordered if part.model_wait), None),
        pods=_pods(ordered),
        fleet_state=next((part.fleet_state for part in ordered if part.feature is Feature.FLEET), FleetState.UNDECIDED),
        scaling=_only(ordered, lambda part: part.scaling) or (),
        targets=_only(ordered, lambda part: part.targets) or {},
        engine_key=_only(ordered, lambda part: part.engine_key),
        adapters=_only(ordered, lambda part: part.adapters) or (),
        awaits_adapters=any(part.awaits_adapters for part in ordered),
        one_node_claim=_only(ordered, lambda part: part.one_node_claim) or "",
    )


def _desired(parts: Sequence[Part]) -> Mapping[Ref, Manifest]:
    """The live objects that stay, and then those that parts write, in the order in which they are applied."""
    authors: dict[Ref, Feature] = {}
    written: dict[Ref, Manifest] = {}
    for part in parts:
        for ref, manifest in part.desired.items():
            is_shared = component_of(manifest) == PROGRAM  # by all Jobs; its name has the hash of its content
            if ref in written and not (is_shared and manifest == written[ref]):
                raise DoubledWriteError(f"{ref} by {authors[ref].value} and {part.feature.value}")
            authors.setdefault(ref, part.feature)
            written[ref] = manifest
    kept = {ref: live for part in parts for ref, live in part.kept.items() if ref not in written}

    def place(ref: Ref) -> tuple[bool, int]:
        """The inspection comes last: nothing that is decided waits for it."""
        return authors[ref] is Feature.INSPECTION, _APPLY_ORDER.get(ref.kind, 0)

    return {**kept, **{ref: written[ref] for ref in sorted(written, key=place)}}


def _pods(parts: Sequence[Part]) -> tuple[PodPatch, ...]:
    """The patches, those of one pod joined. A pod that is deleted gets no new labels or annotations."""
    joined: dict[tuple[str, str], PodPatch] = {}
    for part in parts:
        for patch in part.pods:
            pod = (patch.pod.name, patch.pod.uid)
            joined[pod] = _joined(joined[pod], patch) if pod in joined else patch
    patches = joined.values()
    return tuple(replace(patch, labels={}, annotations={}) if patch.delete else patch for patch in patches)


def _joined(first: PodPatch, second: PodPatch) -> PodPatch:
    doubled = {*first.labels} & {*second.labels} | {*first.annotations} & {*second.annotations}
    costs = [patch.deletion_cost for patch in (first, second) if patch.deletion_cost is not None]
    deletions = [patch.delete for patch in (first, second) if patch.delete]
    if doubled or len(costs) > 1 or len(deletions) > 1:
        what = sorted(doubled) or ("its deletion cost" if len(costs) > 1 else "its deletion")
        raise DoubledWriteError(f"{what} of pod {first.pod.name}")
    return PodPatch(
        pod=first.pod,
        labels={**first.labels, **second.labels},
        annotations={**first.annotations, **second.annotations},
        deletion_cost=next(iter(costs), None),
        why="; ".join(filter(None, (first.why, second.why))),
        delete=next(iter(deletions), None),
    )


def _only(parts: Sequence[Part], value: Callable[[Part], _Value | None]) -> _Value | None:
    said = [(part.feature, text) for part in parts if (text := value(part))]
    if len(said) > 1:
        raise DoubledWriteError(f"one value by {' and '.join(feature.value for feature, _ in said)}")
    return said[0][1] if said else None
