"""All findings about a cluster, in the order in which a person would look."""

from collections.abc import Iterator

from inference_operator.cli.doctor import installation, nodes, platform, pods, releases, rights
from inference_operator.cli.doctor.facts import ClusterFacts, Finding
from inference_operator.engines.registry import EngineRegistry


def findings(facts: ClusterFacts, engines: EngineRegistry) -> Iterator[Finding]:
    """The findings about a cluster."""
    yield from installation.kubernetes(facts)
    yield from installation.definition(facts)
    yield from installation.operator(facts)
    yield from releases.overlap(facts)
    yield from rights.own_rights(facts)
    yield from rights.operator_rights(facts)
    yield from nodes.gpus(facts)
    yield from nodes.driver(facts, engines)
    yield from nodes.runtime_class(facts)
    yield from platform.pod_security(facts)
    yield from platform.admission(facts)
    yield from pods.probe(facts)
    yield from pods.images(facts)
    yield from pods.hub(facts)
    yield from platform.dns(facts)
    yield from platform.network_policies(facts)
    yield from platform.storage(facts)
    yield from platform.metrics(facts)
    yield from installation.leftovers(facts)
