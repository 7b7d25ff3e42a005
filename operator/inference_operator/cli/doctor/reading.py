"""Facts of a cluster as the API server tells them; what may not be read is noted with the missing right."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from inference_operator.admission.rights import CREATE_PODS, Right
from inference_operator.cli.doctor import kinds
from inference_operator.cli.doctor.facts import OPERATOR_RIGHTS, OWN_RIGHTS, ClusterFacts, Listed, Unseen
from inference_operator.cli.operator_settings import SELECTOR, operator_of
from inference_operator.cli.options import SYSTEM_NAMESPACE
from inference_operator.cli.parser import harmless
from inference_operator.controller.cluster import ClusterError, ForbiddenError, NotFoundError
from inference_operator.kube.cluster import KubeCluster, groups_of
from inference_operator.manifest import (
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    NODE,
    POD,
    SERVICE,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.objects.names import MANAGED_SELECTOR, NAME_LABEL
from inference_operator.views.raw import mapping, objects

_Result = TypeVar("_Result")
AT_ONCE = 8
"""Requests at the same time: below the limit of one user's queue in the API server (`--max-requests-inflight`)."""
_ACCESS = "/apis/authorization.k8s.io/v1"
_REVIEW = Kind("authorization.k8s.io/v1", "SelfSubjectAccessReview")


async def may(cluster: KubeCluster, right: Right, namespace: str, subject: Manifest | None = None) -> bool:
    """Whether somebody has a right in a namespace; without a subject, who asks."""
    plural, _, part = right.plural.partition("/")
    attributes = {"namespace": namespace, "verb": right.verb, "group": right.group, "resource": plural}
    attributes |= {"subresource": part} if part else {}
    kind = "SubjectAccessReview" if subject else "SelfSubjectAccessReview"
    spec = {"resourceAttributes": attributes, **(subject or {})}
    body = {"apiVersion": _REVIEW.api_version, "kind": kind, "spec": spec}
    answer = await cluster.api.request("POST", f"{_ACCESS}/{kind.lower()}s", _REVIEW, body=body)
    return bool(mapping(answer, "status").get("allowed"))


@dataclass(frozen=True, slots=True)
class ClusterReader:
    _cluster: KubeCluster
    _namespace: str
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def facts(self, trial_pod: Callable[[ClusterFacts], Manifest]) -> ClusterFacts:
        version = await self._cluster.api.request("GET", "/version", NODE)
        groups = await self._cluster.api.request("GET", "/apis", NODE)
        lists: dict[Kind, Listed] = dict(
            zip(kinds.OF_CLUSTER, await self._all(self._list(kind) for kind in kinds.OF_CLUSTER), strict=True)
        )
        lists |= await self._named_lists()
        needed = dict.fromkeys([*(right for rights in OWN_RIGHTS.values() for right in rights), CREATE_PODS])
        own = await self._allowed([*needed])
        found = await self._all(self._list(kind, self._namespace, labels=MANAGED_SELECTOR) for kind in kinds.LABELLED)
        facts = ClusterFacts(
            self._namespace,
            str(version.get("gitVersion") or ""),
            frozenset(str(one.get("name")) for one in objects(groups, "groups")),
            lists,
            dict(zip(kinds.LABELLED, found, strict=True)),
            own,
            await self._operator_rights(lists[DEPLOYMENT]),
            await self._missing_services(lists),
        )
        if not own.get(CREATE_PODS):
            return replace(facts, trial=Unseen(f"the right to {CREATE_PODS} is missing"))
        return replace(facts, trial=await self._trial(trial_pod(facts)))

    async def _all(self, asked: Iterable[Awaitable[_Result]]) -> list[_Result]:
        async def limited(one: Awaitable[_Result]) -> _Result:
            async with self._limit:
                return await one

        return list(await asyncio.gather(*(limited(one) for one in asked)))

    async def _named_lists(self) -> Mapping[Kind, Listed]:
        """The lists of which only some objects count."""
        operators = await self._list(DEPLOYMENT, labels=SELECTOR)
        if isinstance(operators, Unseen):
            within = await self._list(DEPLOYMENT, SYSTEM_NAMESPACE, labels=SELECTOR)
            operators = within if within and not isinstance(within, Unseen) else operators
        own = self._operator(operators)
        path, right = f"/api/v1/namespaces/{self._namespace}", f"get namespace `{self._namespace}`"
        home, lease = (str(own["metadata"]["namespace"]), own["metadata"]["name"]) if own else (SYSTEM_NAMESPACE, "")
        return {
            DEPLOYMENT: operators,
            kinds.LEASE: await self._list(kinds.LEASE, home, names=lease),  # named as its Deployment by its chart
            POD: await self._list(POD, self._namespace, labels=NAME_LABEL),
            INFERENCE_DEPLOYMENT: await self._list(INFERENCE_DEPLOYMENT, self._namespace),
            kinds.COREFILE: await self._one(Ref(CONFIG_MAP, "kube-system", "coredns")),
            kinds.NAMESPACE: await self._read(path, kinds.NAMESPACE, right),
        }

    def _operator(self, operators: Listed) -> Manifest | None:
        """The Deployment of the operator that serves the namespace; None if there is none, or it was not seen."""
        return None if isinstance(operators, Unseen) else operator_of(operators, self._namespace)

    async def _list(
        self, kind: Kind, namespace: str | None = None, *, labels: str | None = None, names: str = ""
    ) -> Listed:
        fields = f"metadata.name={names}" if names else None
        try:
            found = self._cluster.each(kind, namespace=namespace, labels=labels, fields=fields)
            return [one async for one in found]
        except NotFoundError:  # the cluster does not serve the kind
            return ()
        except ForbiddenError:
            where = f" in `{namespace}`" if namespace else ""
            return Unseen(f"the right to list {kind.plural}{where} is missing")

    async def _one(self, ref: Ref) -> Listed:
        return await self._read(ref.path, ref.kind, f"get {ref.kind.plural} in `{ref.namespace}`")

    async def _read(self, path: str, kind: Kind, right: str) -> Listed:
        try:
            return [await self._cluster.api.request("GET", path, kind)]
        except NotFoundError:
            return ()
        except ForbiddenError:
            return Unseen(f"the right to {right} is missing")

    async def _allowed(self, rights: Sequence[Right], subject: Manifest | None = None) -> Mapping[Right, bool]:
        answers = await self._all(may(self._cluster, right, self._namespace, subject) for right in rights)
        return dict(zip(rights, answers, strict=True))

    async def _operator_rights(self, operators: Listed) -> Mapping[Right, bool] | Unseen:
        if isinstance(operators, Unseen):
            return operators
        own = self._operator(operators)
        if own is None:
            return Unseen("there is no operator")
        namespace = own["metadata"]["namespace"]
        pod = mapping(own, "spec", "template", "spec")
        account = f"system:serviceaccount:{namespace}:{pod.get('serviceAccountName') or 'default'}"
        subject = {"user": account, "groups": groups_of(account)}
        try:
            await may(self._cluster, OPERATOR_RIGHTS[0], self._namespace, subject)
            return await self._allowed(OPERATOR_RIGHTS, subject)
        except ForbiddenError:
            return Unseen("the right to create subjectaccessreviews is missing")

    async def _missing_services(self, lists: Mapping[Kind, Listed]) -> frozenset[str]:
        places = {
            (str(service["namespace"]), str(service["name"]))
            for kind in kinds.WEBHOOKS
            if not isinstance(found := lists[kind], Unseen)
            for one in found
            for hook in objects(one, "webhooks")
            if (service := mapping(hook, "clientConfig", "service"))
        }
        refs = [Ref(SERVICE, *place) for place in sorted(places)]
        return frozenset([f"{ref.namespace}/{ref.name}" for ref in refs if not await self._one(ref)])

    async def _trial(self, pod: Manifest) -> str | Unseen:
        path = POD.path(self._namespace)
        try:
            await self._cluster.api.request("POST", path, POD, query={"dryRun": "All"}, body=pod)
        except ClusterError as error:
            is_tried = "does not support dry run" not in error.cause
            return harmless(error.cause) if is_tried else Unseen("an admission webhook supports no dry run")
        return ""
