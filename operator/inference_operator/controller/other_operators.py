"""Two operators that watch one namespace: the older one acts there, and the younger one leaves it alone.

- A status names the operator that wrote it, and when its Lease was created. Only operators and administrators may write
  a status, so a tenant cannot pose as an operator.
- An operator whose Lease is older acts, and writes its name over that of a younger one.
- A younger one asks the API server whether the account in the status may still write a status in the namespace. While
  it may, the younger one writes nothing there. An operator that is down keeps its namespaces; one that is uninstalled,
  or that got other namespaces, has lost the right.
- Where there is no answer, the other operator counts as present.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta

from inference_operator.api.resource import AnyResource
from inference_operator.api.status import OperatorStatus
from inference_operator.controller.cluster import ClusterError
from inference_operator.status.events import Event

RECHECK = timedelta(seconds=30)
"""Interval between two questions about an operator that acts: one request for each namespace that both watch."""
OTHER_OPERATOR = "OtherOperator"
"""Reason of the Event of the operator that leaves a namespace alone."""

MayAct = Callable[[str, str], Awaitable[bool]]
"""Whether an account may write the status of InferenceDeployments in a namespace; may raise `ClusterError`."""

log = logging.getLogger(__name__)


class OtherOperators:
    """The operators that this one, of this ServiceAccount, has met, and the namespaces that it leaves to them."""

    def __init__(
        self, account: str, may_act: MayAct, record: Callable[[AnyResource, Sequence[Event]], None] | None = None
    ) -> None:
        self._account = account
        self._may_act = may_act
        self._record = record
        self._own: OperatorStatus | None = None
        self._met: dict[str, dict[str, OperatorStatus]] = {}
        """By namespace and account: each with the oldest Lease that it was met with."""
        self._present: dict[tuple[str, str], datetime] = {}
        """By namespace and account: when it was last known to act."""
        self._left: dict[str, str] = {}
        """The namespaces that are left to others, with the account that acts there."""
        self._seen: dict[str, datetime] = {}
        """By namespace: when it was last left to another; it may be deleted since."""

    def begin(self, since: str, resources: Iterable[AnyResource]) -> None:
        """Begin to lead, with a Lease that was created then.

        What was written to these resources before this process began counts from its first reconcile.
        """
        self._own = OperatorStatus(account=self._account, since=since) if since else None
        for resource in resources:
            self._meet(resource)

    def count(self, now: datetime) -> int:
        return sum(1 for namespace in self._left if now - self._seen[namespace] < 2 * RECHECK)

    def claim(self, resource: AnyResource) -> OperatorStatus | None:
        """What a status of this operator says about it. A Lease that was made anew changes no status."""
        written: OperatorStatus | None = resource.status.operator
        return written if written and written.account == self._account else self._own

    async def other(self, resource: AnyResource, now: datetime) -> str | None:
        """The account of the older operator that acts in the resource's namespace; None if this one acts there."""
        self._meet(resource)
        namespace = resource.key.namespace
        for met in sorted(self._met.get(namespace, {}).values(), key=_age):
            if self._own and _age(met) < _age(self._own) and await self._acts(met.account, namespace, now):
                self._seen[namespace] = now
                self._leave(resource, met)
                return met.account
        if account := self._left.pop(namespace, None):
            log.info("%s may no longer act in the namespace %s: this operator acts there again", account, namespace)
        return None

    def _meet(self, resource: AnyResource) -> None:
        written, namespace = resource.status.operator, resource.key.namespace
        if written is None or self._own is None:
            return
        if written.account == self._account:
            self._own = min(self._own, written, key=_age)
            return
        met = self._met.setdefault(namespace, {})
        met[written.account] = min(met.get(written.account, written), written, key=_age)

    async def _acts(self, account: str, namespace: str, now: datetime) -> bool:
        """Whether an operator acts in a namespace. One that does not is forgotten until a status names it again."""
        asked = self._present.get((namespace, account))
        if asked and now - asked < RECHECK:
            return True
        try:
            acts = await self._may_act(account, namespace)
        except ClusterError as error:
            log.warning("Cannot see whether %s acts in the namespace %s, so it counts: %s", account, namespace, error)
            acts = True
        if acts:
            self._present[namespace, account] = now
        else:
            self._present.pop((namespace, account), None)
            self._met.get(namespace, {}).pop(account, None)
        return acts

    def _leave(self, resource: AnyResource, other: OperatorStatus) -> None:
        namespace = resource.key.namespace
        if self._left.get(namespace) == other.account:
            return
        self._left[namespace] = other.account
        text = (
            f"The operator {other.account} acts in the namespace {namespace}, and its Lease is older ({other.since})."
            f" The operator {self._account} leaves the namespace alone. Set `scope.namespaces` so that no namespace"
            " is in two releases, or uninstall one of them."
        )
        log.warning(text)
        if self._record:
            self._record(resource, [Event("Warning", OTHER_OPERATOR, text)])


def _age(operator: OperatorStatus) -> tuple[str, str]:
    """What orders operators, the oldest first: a time in UTC, and the account for two of one second."""
    return operator.since, operator.account
