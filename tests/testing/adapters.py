"""A resource with adapters in its phases: their records, engines that load them, and what these report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.api.status import Status
from inference_operator.jobs.adapter import adapter_record
from inference_operator.jobs.download_result import StoredAdapter
from inference_operator.manifest import Manifest, Ref
from inference_operator.models.adapter import AdapterFacts
from inference_operator.objects.adapter_list import AdapterList, adapter_list, text_hash
from inference_operator.objects.names import ENGINE
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.pod import ADAPTERS_PORT, PodView, pod_view
from inference_operator.views.samples import AdapterFailure, AdapterReport, Samples
from tests.testing.builders import deployment_status, inference_deployment, inputs, planned, pod, ready_pod

BASE, CLAIM = "oci://example.com/model:1", "models"
SOURCES = {"one": "pvc://files/one", "two": "hf://org/two"}


def adapted(*names: str, engine: Manifest | None = None, source: str = BASE, **more: Manifest) -> Manifest:
    """A resource on CPUs with these adapters; `more` has other fields of an adapter by its name."""
    listed = [
        {"name": name, "source": SOURCES.get(name, f"pvc://files/{name}"), **more.get(name, {})} for name in names
    ]
    return inference_deployment(
        model={"source": source, "adapters": listed},
        hardware={"device": "CPU"},
        cache={"claimName": CLAIM},
        engine=engine or {},
    )


def records(raw: Manifest, facts: Mapping[str, AdapterFacts] | None = None) -> list[Manifest]:
    """The ConfigMaps of the copies of all adapters of a resource; of rank 8, unless other facts are given."""
    asked = resource(raw)
    assert isinstance(asked.spec, Spec)
    known = facts or {}
    return [
        adapter_record(asked.owner, one, CLAIM).manifest(
            StoredAdapter(content_of(one.name), 5, known.get(one.name, AdapterFacts(8)))
        )
        for one in asked.spec.model.adapters
        if facts is None or one.name in facts
    ]


def content_of(name: str) -> str:
    """The digest of an adapter's content."""
    return name.encode().hex().ljust(40, "0")


def listed(raw: Manifest, paths: Mapping[str, str], advertised: Sequence[str] = ()) -> Manifest:
    """The live list."""
    return adapter_list(AdapterList(paths, advertised), resource(raw).owner)


def engine_pod(name: str = "qwen-engine-a", *, told: str = "") -> PodView:
    """A ready engine that loads adapters; `told` is the annotation with the list that it should have."""
    view = pod_view(pod(name=name, component=ENGINE, status=ready_pod()), component=ENGINE)
    return replace(view, uid=name, ports={"http": 8000, ADAPTERS_PORT: 8001}, adapters=told)


def report_of(paths: Mapping[str, str], loaded: Iterable[str], *, failed: Iterable[str] = ()) -> AdapterReport:
    """The report of an engine that has carried out a list of these paths."""
    return AdapterReport(
        text_hash(AdapterList(paths).loaded_text),
        {name: paths[name] for name in loaded},
        {name: AdapterFailure(1767323045, 500) for name in failed},
    )


def serving(
    raw: Manifest,
    children: Iterable[Manifest] = (),
    *,
    live: Manifest | None = None,
    reports: Mapping[str, AdapterReport] | None = None,
    pods: Sequence[PodView] = (),
    before: Status | None = None,
) -> Inputs:
    """Inputs with an engine that serves, made from the resource `live`, and with more children."""
    more = list(children)
    built = planned(live or raw, children=more).desired
    engines = {ref: one for ref, one in built.items() if ref.kind.name == "Deployment"}
    status = {
        ref: {**one, "metadata": {**one["metadata"], "generation": 1}, "status": deployment_status(ready)}
        for (ref, one), ready in zip(sorted(engines.items()), (1, 2), strict=True)
    }
    shown = {**raw, "status": before.dump()} if before else raw
    found = inputs(shown, pods=pods or [engine_pod()])
    children_now = {**built, **status, **{Ref.of(one): one for one in more}}
    samples = Samples(adapters=reports or {})
    return replace(found, children=children_now, samples=samples)
