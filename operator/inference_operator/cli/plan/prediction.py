"""The objects that the operator will write for a resource, by its own decisions: `infd plan --diff`.

The operator decides again after its own writes. So do these rounds, on objects as the writes leave them, until nothing
is left to write. Pods and Jobs stand still meanwhile: what follows only once a pod is ready, or a Job has ended, is not
predicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.cli.offline import UNKNOWN_UID
from inference_operator.cli.operator_settings import FoundSettings
from inference_operator.cli.parser import EXIT_FORBIDDEN, UsageError
from inference_operator.controller.cache import Cache
from inference_operator.controller.changes import Apply, Change, Delete, changes
from inference_operator.controller.cluster import ForbiddenError, NotFoundError
from inference_operator.controller.lister import watched_kinds
from inference_operator.engines.registry import EngineRegistry
from inference_operator.fleet.rollout_slots import Fleet
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.lookup_poller import look_up
from inference_operator.manifest import NODE, OPTIONAL_KINDS, Key, Kind, Manifest, Ref
from inference_operator.objects.engine_key import asked_key
from inference_operator.objects.names import NAME_LABEL
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome
from inference_operator.views.lookups import (
    ClaimLookup,
    ConfigMapLookup,
    ForeignAutoscalersLookup,
    FreeGpusLookup,
    Lookup,
    LookupResult,
    Unavailable,
)
from inference_operator.views.raw import mapping

MOST_ROUNDS = 5
"""A resource that has not settled after so many rounds waits for pods or Jobs."""
_OF_THE_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "ownerReferences")


@dataclass(frozen=True, slots=True)
class PredictedWrite:
    ref: Ref
    live: Manifest | None
    """None: it is created."""
    desired: Manifest | None
    """What is applied last; None: it is deleted."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the operator decides and writes until it waits for something."""

    outcome: Outcome
    inputs: Inputs
    writes: tuple[PredictedWrite, ...]
    """In the order of the first write of each object."""
    lookups: tuple[Lookup, ...]


def prediction(inputs: Inputs) -> Prediction:
    """The writes that follow from what is observed. Deletions of pods, and labels of pods, are not among them."""
    first, written, unread = inputs.children, dict[Ref, Manifest | None](), dict[Lookup, None]()
    has_key = any(asked_key(mapping(live, "spec", "template")) for live in first.values())
    decided = outcome(inputs)
    for _ in range(MOST_ROUNDS):
        unread.update(dict.fromkeys(look for look in decided.lookups if look not in inputs.lookups))
        due = changes(inputs.children, decided.desired, (), inputs.resource.owner)
        if decided.engine_key and not has_key:
            written[Ref.of(decided.engine_key)] = decided.engine_key
        if not due:
            break
        written.update({change.ref: change.manifest if isinstance(change, Apply) else None for change in due})
        inputs = replace(inputs, children=_after(inputs.children, due))
        decided = outcome(inputs)
    writes = (PredictedWrite(ref, first.get(ref), desired) for ref, desired in written.items())
    kept = tuple(one for one in writes if one.live is not None or one.desired is not None)
    return Prediction(decided, inputs, kept, tuple(unread))


def _after(children: Mapping[Ref, Manifest], due: list[Change]) -> Mapping[Ref, Manifest]:
    result = dict(children)
    for change in due:
        if isinstance(change, Apply):
            result[change.ref] = _applied(children.get(change.ref), change)
        elif isinstance(change, Delete):
            result.pop(change.ref, None)
    return result


def _applied(live: Manifest | None, change: Apply) -> Manifest:
    """An object after an apply: what was desired of it, and what the API server and controllers have added."""
    added = live or {"metadata": {"uid": UNKNOWN_UID, "ownerReferences": [change.owner.reference]}}
    given = {name: added["metadata"][name] for name in _OF_THE_SERVER if name in added["metadata"]}
    status = {"status": added["status"]} if "status" in added else {}
    return {**change.manifest, **status, "metadata": {**change.manifest["metadata"], **given}}


MOST_LOOKUPS = 4
"""Decisions in a row that need further lookups: one kind of lookup rarely leads to another."""
NO_NODES = "You have no right to list nodes: of GPUs, only those that the operator's `gpuOffers` declare are assumed."
_OF_LOOKUPS: Mapping[type[Lookup], str] = {
    FreeGpusLookup: (
        "Free GPUs could not be counted: it needs the right to list nodes, and pods of all namespaces. A rollout is"
        " assumed to begin with a new engine."
    ),
    ClaimLookup: "You have no right to get the claim that the resource names: it is assumed to be as it is asked for.",
    ConfigMapLookup: "You have no right to get a ConfigMap that the resource names: it is assumed to be empty.",
    ForeignAutoscalersLookup: "You have no right to list HorizontalPodAutoscalers: none is assumed.",
}


async def live_inputs(
    cluster: KubeCluster, live: Manifest, operator: FoundSettings, engines: EngineRegistry, *, now: datetime
) -> tuple[Inputs, tuple[str, ...]]:
    """The observations, and what is assumed where the user may not read; raises `UsageError` if those are children."""
    key = Key(live["metadata"]["namespace"], live["metadata"]["name"])
    cache, notes = Cache(operator.settings, engines), list(operator.notes)
    cache.put(live)
    children = [kind for kind in watched_kinds(operator.settings) if not kind.is_reconciled]
    for kind in children:
        try:
            await _list(cluster, cache, kind, key)
        except ForbiddenError as error:
            raise UsageError(
                f"--diff needs the right to list {kind.plural} in `{key.namespace}`: {error.cause}", EXIT_FORBIDDEN
            ) from error
    cache.unavailable_kinds = {
        kind: why for kind in OPTIONAL_KINDS if (why := await _unavailable(cluster, cache, kind, key))
    }
    if not operator.settings.namespaces:
        try:
            await cache.nodes.replace(cluster.pages(NODE))
        except ForbiddenError:
            notes.append(NO_NODES)
    inputs = cache.inputs(key, now=now)
    if inputs is None:
        raise UsageError(f"{key} is being deleted.")
    if not operator.settings.namespaces and inputs.leaving is None:
        inputs = replace(inputs, leaving={})  # the operator sees the nodes, also where the user may not
    # Whether the operator holds a change of its settings here: nothing else is known of the other resources.
    renewed = inputs.resource.status.condition(ConditionType.RENEWED)
    waits_for_turn = renewed is not None and renewed.reason == Reason.WAITING_FOR_TURN
    return replace(inputs, shared=replace(inputs.shared, fleet=Fleet(is_stopped=waits_for_turn))), tuple(notes)


async def predicted(cluster: KubeCluster, inputs: Inputs) -> tuple[Prediction, Sequence[str]]:
    """The prediction, with the lookups that its decisions need, and what is assumed without a result of one."""
    results: dict[Lookup, LookupResult] = {}
    found = prediction(inputs)
    for _ in range(MOST_LOOKUPS):
        if not found.lookups:
            break
        for look in found.lookups:
            results[look] = await look_up(cluster, look)
        found = prediction(replace(inputs, lookups=dict(results)))
    unread = (type(look) for look, result in results.items() if isinstance(result, Unavailable))
    return found, list(dict.fromkeys(_OF_LOOKUPS[kind] for kind in unread if kind in _OF_LOOKUPS))


async def _list(cluster: KubeCluster, cache: Cache, kind: Kind, key: Key) -> None:
    selector = f"{NAME_LABEL}={key.name}"
    await cache.replace(kind, cluster.pages(kind, namespace=key.namespace, selector=selector))


async def _unavailable(cluster: KubeCluster, cache: Cache, kind: Kind, key: Key) -> str:
    """Why a kind with a CRD of its own cannot be used; empty if it can.

    The API server answers 403 for a kind that does not exist to those who may not list it. Discovery tells the two
    apart; every user may read it.
    """
    missing = f"the cluster has no {kind.plural} of {kind.api_version}."
    try:
        await _list(cluster, cache, kind, key)
    except NotFoundError:
        return missing
    except ForbiddenError as error:
        try:
            known = await cluster.api.request("GET", f"/apis/{kind.api_version}", kind)
        except NotFoundError:
            return missing
        if kind.plural in {one.get("name") for one in known.get("resources") or ()}:
            right = f"--diff needs the right to list {kind.plural} in `{key.namespace}`: {error.cause}"
            raise UsageError(right, EXIT_FORBIDDEN) from error
        return missing
    return ""
