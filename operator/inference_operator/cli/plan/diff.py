"""`infd plan --diff`: what the operator would write in the cluster after an apply of files, and what follows."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.cli.cluster_command import ClusterCommand, namespace_of_context
from inference_operator.cli.files import documents
from inference_operator.cli.operator_settings import FoundSettings
from inference_operator.cli.output import document, dumped
from inference_operator.cli.parser import EXIT_FORBIDDEN, EXIT_REFUSED, UsageError, harmless
from inference_operator.cli.plan.cluster import found_settings, stored_edit
from inference_operator.cli.plan.consequences import Consequences, consequences
from inference_operator.cli.plan.prediction import PredictedWrite, live_inputs, predicted
from inference_operator.cli.status.screen import show
from inference_operator.controller.cluster import ForbiddenError, RejectedError
from inference_operator.controller.drift import drifts
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, SECRET, Manifest, Ref
from inference_operator.objects.child import DESIRED_HASH_ANNOTATION
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Refused
from inference_operator.sentences import counted
from inference_operator.views.raw import mapping

MOST_FIELDS, MOST_CHARACTERS = 12, 60
"""Of an object that are shown, and of a value."""
_OWN = ".annotations.inference-operator.dev/"
"""Part of the paths of annotations that record decisions: they repeat what the specification says."""
CREATE, CHANGE, DELETE = "create", "change", "delete"
MARKS = {CREATE: ("+", "green"), CHANGE: ("~", "yellow"), DELETE: ("-", "red")}
CURE = (
    "--diff needs the rights to get InferenceDeployments, and to list its children and pods in their namespace, such as"
    " the ClusterRole `view` gives."
)
PAUSED = "`spec.paused` is true: the operator writes this once it is false (`infd resume`)."


@dataclass(frozen=True, slots=True)
class FieldChange:
    """The change of one field of an object; values are empty where they are objects, long or secret."""

    path: str
    live: str = ""
    desired: str = ""

    @property
    def words(self) -> str:
        return f"{self.path}: {self.live} -> {self.desired}" if self.live and self.desired else self.path


@dataclass(frozen=True, slots=True)
class ObjectChange:
    action: str
    kind: str
    name: str
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    namespace: str
    name: str
    refusal: str = ""
    """Why the API server or the operator refuses it; empty if they accept it."""
    is_new: bool = False
    is_paused: bool = False
    changes: tuple[ObjectChange, ...] = ()
    consequences: Consequences = field(default_factory=Consequences)
    waits: str = ""
    """What has to end before the operator decides more, in sentences; empty if nothing has to."""
    notes: tuple[str, ...] = ()

    def document(self) -> Manifest:
        roles = [{**document(one), "seconds": one.seconds} for one in self.consequences.roles]
        return {
            "namespace": self.namespace,
            "name": self.name,
            "accepted": not self.refusal,
            "message": self.refusal or self.waits,
            "new": self.is_new,
            "paused": self.is_paused,
            "changes": self.changes,
            "engines": roles,
            "consequences": list(self.consequences.sentences()),
            "assumed": list(self.notes),
        }


def run_diff(options: argparse.Namespace) -> int:
    engines = options.engines or ENGINES
    found = documents(options.filename)
    namespace = options.in_namespace or namespace_of_context(options)

    async def work(cluster: KubeCluster) -> list[Difference]:
        return [await difference(cluster, _with_namespace(one, namespace), engines) for one in found]

    differences = ClusterCommand(options, cure=CURE).run(work)
    if options.output != "table":
        print(dumped([one.document() for one in differences], options.output))
    for one in differences if options.output == "table" else ():
        if one.refusal:
            print(harmless(f"{one.namespace}/{one.name}: {one.refusal}"), file=sys.stderr)
        else:
            show(screen(one))
    return EXIT_REFUSED if any(one.refusal for one in differences) else 0


def _with_namespace(document: Manifest, namespace: str) -> Manifest:
    meta = mapping(document, "metadata")
    if not isinstance(meta.get("name"), str):
        raise UsageError("metadata.name: is missing. --diff needs the name of each resource.")
    return {**document, "metadata": {**meta, "namespace": str(meta.get("namespace") or namespace)}}


async def difference(
    cluster: KubeCluster,
    document: Manifest,
    engines: EngineRegistry,
    *,
    operator: FoundSettings | None = None,
) -> Difference:
    namespace, name = document["metadata"]["namespace"], document["metadata"]["name"]
    live = await cluster.get(Ref(INFERENCE_DEPLOYMENT, namespace, name))
    try:
        edited = await stored_edit(cluster, document, live)
    except ForbiddenError as error:
        raise UsageError(
            f"You have no right to patch InferenceDeployments in `{namespace}`. With it, the API server shows what it"
            f" would store: {error.cause}",
            EXIT_FORBIDDEN,
        ) from error
    except RejectedError as error:
        return Difference(namespace, name, refusal=f"The API server refuses it: {error.cause}", is_new=live is None)
    settings = operator or await found_settings(cluster, namespace)
    before, notes = await live_inputs(cluster, live or edited, settings, engines, now=cluster.api.clock.now())
    after, is_paused = _unpaused(replace(before, resource=resource(edited)))
    found, assumed = await predicted(cluster, after)
    refusal = found.outcome.refusal.message if isinstance(found.outcome, Refused) else ""
    return Difference(
        namespace,
        name,
        refusal=f"The operator refuses it: {refusal} What runs stays." if refusal else "",
        is_new=live is None,
        is_paused=is_paused,
        changes=tuple(map(_change, found.writes)),
        consequences=consequences(before, found),
        waits=found.outcome.wait.message if isinstance(found.outcome, NeedsInspection) else "",
        notes=(*notes, *assumed),
    )


def _unpaused(inputs: Inputs) -> tuple[Inputs, bool]:
    """The inputs as they are once the resource is resumed, and whether it is paused."""
    spec = inputs.resource.spec
    if isinstance(spec, Refusal) or not spec.paused:
        return inputs, False
    running: Spec = spec.model_copy(update={"paused": False})
    return replace(inputs, resource=replace(inputs.resource, spec=running)), True


def _change(write: PredictedWrite) -> ObjectChange:
    kind, name = write.ref.kind.name, write.ref.name
    if write.live is None or write.desired is None:
        return ObjectChange(CREATE if write.live is None else DELETE, kind, name)
    return ObjectChange(CHANGE, kind, name, tuple(changed_fields(write.live, write.desired)))


def screen(shown: Difference) -> Group:
    return Group(*_lines(shown))


def _lines(shown: Difference) -> Iterator[RenderableType]:
    count = counted(len(shown.changes), "object") if shown.changes else "nothing"
    new = " (new)" if shown.is_new else ""
    yield Text(f"{shown.namespace}/{shown.name}{new}: the operator would write {count}.", style="bold")
    for one in shown.changes:
        mark, colour = MARKS[one.action]
        yield Text(f"  {mark} {one.kind} {one.name}", style=colour)
        changed = [change.words for change in one.fields[:MOST_FIELDS]]
        more = len(one.fields) - MOST_FIELDS
        for line in [*changed, f"and {more} more"] if more > 0 else changed:
            yield Padding(Text(line, style="dim"), (0, 0, 0, 6))
    waits = (f"First: {shown.waits}",) if shown.waits else ()
    paused = (PAUSED,) if shown.is_paused and shown.changes else ()
    yield from (Text(one) for one in (*paused, *shown.consequences.sentences(), *waits))
    yield from (Text(f"Assumed: {one}", style="dim") for one in shown.notes)


def changed_fields(live: Manifest, desired: Manifest) -> list[FieldChange]:
    """The fields that change. Records of the operator are named only if nothing else changes.

    Examples:
        >>> live = {"metadata": {"annotations": {"a": "1"}}, "spec": {"replicas": 1, "paused": True}}
        >>> found = changed_fields(live, {"metadata": {"annotations": {"a": "2"}}, "spec": {"replicas": 3}})
        >>> [field.words for field in found]
        ['.metadata.annotations.a: 1 -> 2', '.spec.replicas: 1 -> 3']
    """
    hides = desired.get("kind") == SECRET.name
    found = [FieldChange(path, *(("", "") if hides else _words(*values))) for path, *values in drifts(live, desired)]
    telling = [field for field in found if _OWN not in field.path]
    records = [field for field in found if _OWN in field.path and DESIRED_HASH_ANNOTATION not in field.path]
    return telling or records or [FieldChange("fields that are no longer wanted")]


def _words(live: object, desired: object) -> tuple[str, str]:
    """Two values for people: of lists of texts what only one of them has; empty where they are objects or long."""
    if isinstance(live, list) and isinstance(desired, list):
        return _listed(live, desired), _listed(desired, live)
    before, after = ("unset" if value is None else _text(value) for value in (live, desired))
    return (before, after) if before and after else ("", "")


def _listed(items: Sequence[object], others: Sequence[object]) -> str:
    texts = [_text(item) for item in items if item not in others]
    return _text(" ".join(texts) or "none") if all(texts) else ""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value) if isinstance(value, str | int | float) else ""
    return "" if "\n" in text else text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
