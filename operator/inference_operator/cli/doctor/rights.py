"""Rights that commands of `infd` need, rights that the operator needs, and findings about both."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from inference_operator.admission.rights import Right
from inference_operator.cli.doctor.facts import ClusterFacts, Finding, Health, Unseen
from inference_operator.manifest import (
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    GROUP,
    HORIZONTAL_POD_AUTOSCALER,
    INGRESS,
    JOB,
    PLURAL,
    SERVICE,
    STATEFUL_SET,
    Kind,
)

RESOURCE = (PLURAL, GROUP)
OWN_RIGHTS: Mapping[str, Sequence[Right]] = {
    "list, status, explain, top": (
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
_CHILDREN: Sequence[Kind] = (
    SERVICE,
    CONFIG_MAP,
    CLAIM,
    JOB,
    DEPLOYMENT,
    STATEFUL_SET,
    DISRUPTION_BUDGET,
    INGRESS,
    HORIZONTAL_POD_AUTOSCALER,
)
OPERATOR_RIGHTS: Sequence[Right] = (
    *(Right(verb, *RESOURCE) for verb in ("list", "watch")),
    Right("patch", f"{PLURAL}/status", GROUP),
    *(Right(verb, kind.plural, kind.api_version.rpartition("/")[0]) for kind in _CHILDREN for verb in _WRITTEN),
    *(Right(verb, "pods") for verb in ("list", "watch", "patch", "delete")),
    Right("list", "events"),
    *(Right(verb, "events", "events.k8s.io") for verb in ("create", "patch")),
)
"""The rights without which the operator does not work. The chart's Role has more; a test compares them."""
MOST_RIGHTS = 4
"""Rights that a message names."""


def own_rights(facts: ClusterFacts) -> Iterator[Finding]:
    """The finding about the rights of who runs the command."""
    missing: dict[Right, list[str]] = defaultdict(list)
    for command, needed in OWN_RIGHTS.items():
        for right in needed:
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
    """The finding about the rights of the operator's ServiceAccount."""
    found = facts.operator_rights
    if isinstance(found, Unseen):
        yield Finding("Its rights", Health.UNKNOWN, f"The rights of the operator were not seen: {found.right}.")
        return
    missing = [str(right) for right, allowed in found.items() if not allowed]
    if missing:
        more = f" and {len(missing) - MOST_RIGHTS} more" if len(missing) > MOST_RIGHTS else ""
        message = f"The operator may not in `{facts.namespace}`: {', '.join(missing[:MOST_RIGHTS])}{more}."
        cure = "Upgrade the release with Helm, or add the namespace to `scope.namespaces`."
        yield Finding("Its rights", Health.BAD, message, cure)
    else:
        yield Finding("Its rights", Health.GOOD, f"The operator has its rights in `{facts.namespace}`.")
