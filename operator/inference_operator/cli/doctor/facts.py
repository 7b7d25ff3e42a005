"""Facts about a cluster from which `infd doctor` draws its findings, the findings, and those about rights."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from inference_operator.admission.rights import Right
from inference_operator.cli.operator_settings import operator_of
from inference_operator.manifest import CHILD_KINDS, DEPLOYMENT, GROUP, PLURAL, Kind, Manifest
from inference_operator.sentences import first_of
from inference_operator.views.raw import mapping, objects


class Health(StrEnum):
    GOOD = "good"
    NOTE = "note"
    """It may matter, and does not stop anything by itself."""
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    health: Health
    message: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Unseen:
    right: str


Listed: TypeAlias = Sequence[Manifest] | Unseen
UNREAD = Unseen("it was not read")


@dataclass(frozen=True, slots=True)
class ProbeResult:
    problem: str = ""
    dns_error: str = ""
    dns_ttl_seconds: int | None = None
    hub_error: str = ""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    namespace: str
    version: str = ""
    """As `v1.36.1`; empty if it is not known."""
    groups: frozenset[str] = frozenset()
    lists: Mapping[Kind, Listed] = field(default_factory=dict)
    leftovers: Mapping[Kind, Listed] = field(default_factory=dict)
    own_rights: Mapping[Right, bool] = field(default_factory=dict)
    operator_rights: Mapping[Right, bool] | Unseen = UNREAD
    missing_services: frozenset[str] = frozenset()
    """Services of webhooks that do not exist, as `namespace/name`."""
    trial: str | Unseen = UNREAD
    """Why the API server refuses a pod that was sent to be checked and not created; empty if it accepts it."""
    probe: ProbeResult | None = None
    """None: no pod was started."""

    def of(self, kind: Kind) -> Listed:
        return self.lists.get(kind, UNREAD)

    def seen(self, kind: Kind) -> Sequence[Manifest]:
        found = self.of(kind)
        return () if isinstance(found, Unseen) else found

    @property
    def operator(self) -> Manifest | None:
        return operator_of(self.seen(DEPLOYMENT), self.namespace)

    @property
    def settings(self) -> Mapping[str, str]:
        """The operator's settings by their variable, as its Deployment has them."""
        template = mapping(self.operator or {}, "spec", "template", "spec")
        variables = (one for container in objects(template, "containers") for one in objects(container, "env"))
        return {str(one.get("name")): str(one.get("value") or "") for one in variables}


def name_of(manifest: Manifest) -> str:
    return str(mapping(manifest, "metadata").get("name") or "")


def place_of(manifest: Manifest) -> str:
    return f"{mapping(manifest, 'metadata').get('namespace') or ''}/{name_of(manifest)}"


def labels_of(manifest: Manifest) -> Manifest:
    return mapping(manifest, "metadata", "labels")


def unseen(check: str, found: Listed) -> Iterator[Finding]:
    if isinstance(found, Unseen):
        yield Finding(check, Health.UNKNOWN, f"Not seen: {found.right}.")


RESOURCE = (PLURAL, GROUP)
OWN_RIGHTS: Mapping[str, Sequence[Right]] = {
    "list, status": (
        Right("get", *RESOURCE),
        Right("list", *RESOURCE),
        Right("list", "pods"),
        Right("list", "events"),
        Right("get", "pods/proxy"),
    ),
    "run": (Right("patch", *RESOURCE), Right("create", *RESOURCE)),
    "renew, restart, pause, resume": (Right("patch", *RESOURCE),),
    "plan --diff": (Right("patch", *RESOURCE),),
    "chat, bench": (Right("get", "pods/portforward"), Right("create", "pods/portforward")),
    "logs": (Right("get", "pods/log"),),
    "plan --cluster": (Right("list", "nodes"),),
    "cache": (Right("list", "persistentvolumeclaims"), Right("patch", "jobs", "batch"), Right("patch", "configmaps")),
}
"""The rights that commands need, in the namespace."""

_WRITTEN = ("list", "watch", "create", "patch")
OPERATOR_RIGHTS: Sequence[Right] = (
    *(Right(verb, *RESOURCE) for verb in ("list", "watch")),
    Right("patch", f"{PLURAL}/status", GROUP),
    *(Right(verb, kind.plural, kind.group) for kind in CHILD_KINDS for verb in _WRITTEN),
    *(Right(verb, "pods") for verb in ("list", "watch", "patch", "delete")),
    Right("list", "events"),
    *(Right(verb, "events", "events.k8s.io") for verb in ("create", "patch")),
)
"""The rights without which the operator does not work. The chart's Role has more; a test compares them."""
MOST_RIGHTS = 4


def own_rights(facts: ClusterFacts) -> Iterator[Finding]:
    missing: dict[Right, list[str]] = defaultdict(list)
    for command, right in ((command, right) for command, needed in OWN_RIGHTS.items() for right in needed):
        if not facts.own_rights.get(right, True):
            missing[right].append(command)
    if not facts.own_rights:
        yield Finding("Your rights", Health.UNKNOWN, "The API server did not say which you have.")
    elif missing:
        named = "\n".join(f"{right} (for {', '.join(commands)})" for right, commands in missing.items())
        cure = "The ClusterRole `edit` has all of them but `list nodes`, which is a right in the whole cluster."
        yield Finding("Your rights", Health.NOTE, f"You lack in `{facts.namespace}`:\n{named}", cure)
    else:
        yield Finding("Your rights", Health.GOOD, f"You may do in `{facts.namespace}` all that infd does.")


def operator_rights(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.operator_rights
    if isinstance(found, Unseen):
        yield Finding("Its rights", Health.UNKNOWN, f"The rights of the operator were not seen: {found.right}.")
        return
    missing = [str(right) for right, allowed in found.items() if not allowed]
    if missing:
        message = f"The operator may not in `{facts.namespace}`: {first_of(missing, MOST_RIGHTS)}."
        cure = "Upgrade the release with Helm, or add the namespace to `scope.namespaces`."
        yield Finding("Its rights", Health.BAD, message, cure)
    else:
        yield Finding("Its rights", Health.GOOD, f"The operator has its rights in `{facts.namespace}`.")
