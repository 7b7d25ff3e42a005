"""The finding about several releases of the operator that serve one namespace."""

from collections.abc import Iterator

from inference_operator.cli.doctor.facts import ClusterFacts, Finding, Health, place_of
from inference_operator.cli.operator_settings import operators_of
from inference_operator.manifest import DEPLOYMENT, INFERENCE_DEPLOYMENT
from inference_operator.views.raw import mapping

SPLIT = "Set `scope.namespaces` so that no namespace is in two releases, or uninstall one of them."


def overlap(facts: ClusterFacts) -> Iterator[Finding]:
    """The finding that more than one operator serves the namespace, with those that its resources name.

    A tenant can give a Deployment the operator's label, so it is a note, and the status of resources says who acts.

    Examples:
        >>> list(overlap(ClusterFacts("default")))
        []
    """
    serving = operators_of(facts.seen(DEPLOYMENT), facts.namespace)
    if len(serving) < 2:  # noqa: PLR2004 - one is as it should be
        return
    resources = facts.seen(INFERENCE_DEPLOYMENT)
    named = {str(mapping(mapping(one, "status"), "operator").get("account") or "") for one in resources}
    acts = ", ".join(sorted(named - {""}))
    who = f" The status of its InferenceDeployments names {acts}." if acts else ""
    places = " and ".join(sorted(map(place_of, serving)))
    message = f"{places} serve the namespace `{facts.namespace}`. The one with the older Lease acts.{who}"
    yield Finding("Releases", Health.NOTE, message, SPLIT)
