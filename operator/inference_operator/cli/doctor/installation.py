"""Findings about the API server, the CRD, the operator, and what older releases left."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from inference_operator import __version__
from inference_operator.api.crd import crd
from inference_operator.api.model_gateway import MODEL_GATEWAY_API
from inference_operator.api.resource import INFERENCE_DEPLOYMENT_API, ResourceApi
from inference_operator.cli.doctor import kinds
from inference_operator.cli.doctor.facts import (
    ClusterFacts,
    Finding,
    Health,
    Unseen,
    labels_of,
    name_of,
    place_of,
    unseen,
)
from inference_operator.cli.operator_settings import VERSION_LABEL, operators_of
from inference_operator.manifest import DEPLOYMENT, GROUP, INFERENCE_DEPLOYMENT, VERSION, Manifest
from inference_operator.objects.names import MANAGER
from inference_operator.sentences import first_of
from inference_operator.views.raw import mapping, named, objects

LEAST_MINOR = 31
"""Kubernetes 1.31, as `kubeVersion` of the chart."""
IMAGE_VOLUMES_MINOR = 36
"""Kubernetes 1.36 mounts images as volumes, which `oci://` models need."""
MOST_FIELDS = 4
APIS: Sequence[ResourceApi[Any, Any]] = (INFERENCE_DEPLOYMENT_API, MODEL_GATEWAY_API)
UPGRADE = "Apply `infd crd` of the operator's release; the chart does not update a CRD by itself."
INSTALL = "Install it: docs/how-to/install.md."


def kubernetes(facts: ClusterFacts) -> Iterator[Finding]:
    found = re.match(r"v?1\.(\d{1,3})", facts.version)
    if found is None:
        yield Finding("Kubernetes", Health.UNKNOWN, "The API server did not report its version.")
    elif int(found[1]) < LEAST_MINOR:
        message = f"The API server is {facts.version}; this release needs 1.{LEAST_MINOR} or newer."
        yield Finding("Kubernetes", Health.BAD, message, "Upgrade the cluster.")
    else:
        note = "" if int(found[1]) >= IMAGE_VOLUMES_MINOR else " Models `oci://` need 1.36."
        yield Finding("Kubernetes", Health.GOOD, f"The API server is {facts.version}.{note}")


def definition(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.of(kinds.DEFINITION)
    if isinstance(found, Unseen):
        if GROUP not in facts.groups:
            yield Finding("CRD", Health.BAD, f"The cluster does not serve {GROUP}.", INSTALL)
        else:
            yield Finding("CRD", Health.UNKNOWN, f"It is served. Its fields were not compared: {found.right}.")
        return
    problems = [finding for api in APIS for finding in _definition(api, found)]
    yield from problems or [Finding("CRD", Health.GOOD, f"It has the fields of this infd ({__version__}).")]


def _definition(api: ResourceApi[Any, Any], found: Sequence[Manifest]) -> Iterator[Finding]:
    name = f"{api.kind.plural}.{GROUP}"
    live = next((one for one in found if name_of(one) == name), None)
    if live is None:
        is_first = api is INFERENCE_DEPLOYMENT_API
        health, cure = (Health.BAD, INSTALL) if is_first else (Health.NOTE, UPGRADE)
        yield Finding("CRD", health, f"The CustomResourceDefinition {name} is missing.", cure)
        return
    ours, theirs = set(_fields(_schema(crd(api)), "")), set(_fields(_schema(live), ""))
    lacks, has_more = sorted(ours - theirs), sorted(theirs - ours)
    if not theirs:
        yield Finding("CRD", Health.BAD, f"{name} does not serve {VERSION}.", UPGRADE)
    elif lacks:
        message = f"{name} is older than this infd ({__version__}) and lacks {first_of(lacks, MOST_FIELDS)}."
        yield Finding("CRD", Health.BAD, message, UPGRADE)
    elif has_more:
        message = f"{name} is newer than this infd ({__version__}), and also has {first_of(has_more, MOST_FIELDS)}."
        yield Finding("CRD", Health.NOTE, message, "Use the infd of the operator's release.")


def operator(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.of(DEPLOYMENT)
    live = facts.operator
    if live is None:
        yield from unseen("Operator", found)
        if found and not isinstance(found, Unseen):
            message = f"The operator of {place_of(found[0])} does not serve the namespace `{facts.namespace}`."
            yield Finding("Operator", Health.BAD, message, "Add the namespace to `scope.namespaces` of its chart.")
        elif not isinstance(found, Unseen):
            yield Finding("Operator", Health.BAD, "No Deployment of inference-operator was found.", INSTALL)
        return
    status, version = mapping(live, "status"), str(labels_of(live).get(VERSION_LABEL) or "")
    ready, wanted = status.get("readyReplicas") or 0, mapping(live, "spec").get("replicas", 1)
    where, namespace = place_of(live), mapping(live, "metadata").get("namespace")
    if not ready:
        kubectl = f"kubectl --namespace {namespace}"
        cure = f"{kubectl} get pods; {kubectl} logs deployment/{name_of(live)}"
        yield Finding("Operator", Health.BAD, f"None of {wanted} pods of {where} is ready.", cure)
    else:
        yield Finding("Operator", Health.GOOD, f"{ready} of {wanted} pods of {where} are ready.")
    if version and version != __version__:
        message = f"The operator is {version}, and this infd {__version__}."
        yield Finding("Versions", Health.NOTE, message, "Use the infd of the operator's release: plans may differ.")
    elif version:
        yield Finding("Versions", Health.GOOD, f"The operator and this infd are {version}.")
    yield from _lease(facts)


def _lease(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.of(kinds.LEASE)
    yield from unseen("Lease", found)
    if not isinstance(found, Unseen) and not any(mapping(one, "spec").get("holderIdentity") for one in found):
        cure = "Read the log of its pods: the right on the Lease may be missing."
        yield Finding("Lease", Health.BAD, "No operator pod holds the Lease, so none works.", cure)


def leftovers(facts: ClusterFacts) -> Iterator[Finding]:
    ownerless = [
        f"{kind.name} {place_of(one)}"
        for kind, found in facts.leftovers.items()
        if not isinstance(found, Unseen)
        for one in found
        if not mapping(one, "metadata").get("ownerReferences")
    ]
    used = {f"{api.kind.plural}.{GROUP}" for api in APIS}
    old = [
        f"CustomResourceDefinition {name_of(one)}"
        for one in facts.seen(kinds.DEFINITION)
        if mapping(one, "spec").get("group") == GROUP and name_of(one) not in used
    ]
    hooks = [
        f"{kind.name} {name_of(one)}" for kind in kinds.WEBHOOKS for one in facts.seen(kind) if MANAGER in name_of(one)
    ]
    if found := [*ownerless, *old, *hooks]:
        cure = "Nothing uses them. Look at each with kubectl, and delete it."
        yield Finding("Leftovers", Health.NOTE, f"{len(found)} without use: {first_of(found, MOST_FIELDS)}.", cure)
    elif facts.leftovers and all(isinstance(one, Unseen) for one in facts.leftovers.values()):
        yield from unseen("Leftovers", next(iter(facts.leftovers.values())))
    else:
        yield Finding("Leftovers", Health.GOOD, "No object of the operator is without an owner.")


def _schema(definition: Manifest) -> Manifest:
    return mapping(named(objects(mapping(definition, "spec"), "versions"), VERSION), "schema", "openAPIV3Schema")


def _fields(schema: Manifest, path: str) -> Iterator[str]:
    for name, part in mapping(schema, "properties").items():
        if isinstance(part, dict):
            yield f"{path}{name}"
            yield from _fields(part, f"{path}{name}.")
    if items := mapping(schema, "items"):
        yield from _fields(items, f"{path}[].")


def overlap(facts: ClusterFacts) -> Iterator[Finding]:
    """The finding that more than one operator serves the namespace, with those that its resources name.

    A tenant can give a Deployment the operator's label, so it is a note, and the status of resources says who acts.
    """
    serving = operators_of(facts.seen(DEPLOYMENT), facts.namespace)
    if len(serving) < 2:  # noqa: PLR2004 - one is as it should be
        return
    resources = facts.seen(INFERENCE_DEPLOYMENT)
    accounts = {str(mapping(one, "status", "operator").get("account") or "") for one in resources}
    acts = ", ".join(sorted(accounts - {""}))
    who = f" The status of its InferenceDeployments names {acts}." if acts else ""
    places = " and ".join(sorted(map(place_of, serving)))
    message = f"{places} serve the namespace `{facts.namespace}`. The one with the older Lease acts.{who}"
    cure = "Set `scope.namespaces` so that no namespace is in two releases, or uninstall one of them."
    yield Finding("Releases", Health.NOTE, message, cure)
