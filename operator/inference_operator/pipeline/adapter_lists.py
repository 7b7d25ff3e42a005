"""Which adapters engines load, which ones routers advertise, and which pods have an earlier list.

Rules:

1. Engines load each adapter whose files are on the claim and fit. While those of an edited adapter are copied, or if
   they cannot be used, its former files stay; but not beside another model than theirs.
2. Routers advertise an adapter of the specification that every ready engine has loaded, from whichever files. An engine
   that has told nothing yet changes nothing.
3. While no engine is ready, routers advertise what engines would load, but nothing that failed when the last engines
   ran.
4. A list that is written reaches its pods a moment later. So pods are told one decision after the list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference_operator.api.refusal import Refusal
from inference_operator.jobs.attempts import JobWait
from inference_operator.objects.adapter_list import AdapterList, text_hash
from inference_operator.objects.pod_patch import PodPatch
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import ADAPTERS_ANNOTATION, ADAPTERS_PORT, PodView
from inference_operator.views.samples import AdapterReport


@dataclass(frozen=True, slots=True)
class Adapter:
    name: str
    path: str = ""
    """Path of its files in engines; empty while they are copied, or if they cannot be used."""
    refusal: Refusal | None = None
    progress: str = ""
    """How far the copy is, in a sentence; empty once it is done."""
    wait: JobWait | None = None
    """Why the pod of its Job does not run; None if it runs."""
    keeps_former: bool = True
    """Whether former files of the same name stay meanwhile; not those of another model, or of a name that is taken."""


def decided_list(
    adapters: Sequence[Adapter],
    live: AdapterList,
    engines: Sequence[EngineView],
    reports: Mapping[str, AdapterReport],
    failed: frozenset[str],
) -> AdapterList:
    """The list by rules 1 to 3. `reports` are by engine uid; `failed` are names that failed when engines last ran."""
    former = {adapter.name: live.loaded.get(adapter.name, "") for adapter in adapters if adapter.keeps_former}
    paths = {adapter.name: adapter.path or former.get(adapter.name, "") for adapter in adapters}
    loaded = {name: path for name, path in paths.items() if path}
    serving = [engine for engine in engines if engine.is_serving]
    if not serving:
        return AdapterList(loaded, tuple(sorted(set(loaded) - failed)))
    known = [reports[engine.uid] for engine in serving if engine.uid in reports]
    advertised = set(loaded) if known else set(live.advertised) & set(loaded)
    for report in known:
        advertised &= set(report.loaded)
    if len(known) < len(serving):
        advertised &= set(live.advertised)
    return AdapterList(loaded, tuple(sorted(advertised)))


def is_awaited(listed: AdapterList, engines: Sequence[EngineView], reports: Mapping[str, AdapterReport]) -> bool:
    """Whether an engine that serves has yet to tell that it has carried out this list."""
    serving = [engine.uid for engine in engines if engine.is_serving and ADAPTERS_PORT in engine.leader.ports]
    carried_out = {uid for uid, report in reports.items() if report.list_hash == text_hash(listed.loaded_text)}
    return not carried_out.issuperset(serving)


def list_updates(
    listed: AdapterList, engines: Sequence[EngineView], routers: Sequence[PodView], reports: Mapping[str, AdapterReport]
) -> tuple[PodPatch, ...]:
    """The pods to tell, by rule 4. An engine that was told, and still reports another list, is told once more."""
    loaded, advertised = text_hash(listed.loaded_text), text_hash(listed.advertised_text)
    updates = [
        (pod, _again(pod, loaded, reports.get(pod.uid)))
        for engine in engines
        for pod in engine.pods
        if ADAPTERS_PORT in pod.ports and not pod.terminating
    ]
    updates += [(pod, advertised) for pod in routers if not pod.terminating]
    why = "the list of adapters has changed"
    return tuple(
        PodPatch(pod=pod, annotations={ADAPTERS_ANNOTATION: text}, why=why)
        for pod, text in updates
        if pod.adapters != text
    )


def _again(pod: PodView, loaded: str, report: AdapterReport | None) -> str:
    """The annotation's value: the hash, and a mark if the pod was told and had not got the list a second later."""
    first, second = loaded, f"{loaded}-2"
    missed = report is not None and report.list_hash not in ("", loaded) and pod.adapters == first
    return second if missed or pod.adapters == second else first
