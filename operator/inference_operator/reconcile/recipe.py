"""The whole imperative part: look, decide, do, tell. It has no branch on what is asked."""

from collections.abc import Callable, Sequence
from datetime import datetime

from inference_operator.api.resource import Resource
from inference_operator.api.status import Status
from inference_operator.manifest import API_VERSION, INFERENCE_DEPLOYMENT, KIND, Key, Ref
from inference_operator.observed.answer import Answer
from inference_operator.pipeline import Inputs, outcome
from inference_operator.reconcile.cache import Cache
from inference_operator.reconcile.changes import changes
from inference_operator.reconcile.cluster import Cluster
from inference_operator.reconcile.execute import execute
from inference_operator.status.events import Event, events
from inference_operator.status.report import After, report

Tell = Callable[[Resource, Sequence[Event]], None]
"""Is told of the transitions that a status has just been written about."""


def _nobody(_resource: Resource, _events: Sequence[Event]) -> None:
    """Nobody wants to know."""


class Reconciler:
    """Brings one InferenceDeployment after another to what it asks for."""

    def __init__(self, cluster: Cluster, cache: Cache, now: Callable[[], datetime], tell: Tell = _nobody) -> None:
        self._cluster = cluster
        self._cache = cache
        self._now = now
        self._tell = tell

    async def reconcile(self, key: Key) -> After | None:
        """Bring one InferenceDeployment to what it asks for; returns when to look again."""
        inputs = self._cache.inputs(key, now=self._now())
        if inputs is None:
            return None
        result = outcome(inputs)
        answers: list[Answer] = []
        for change in changes(inputs.children, result.desired, result.removals, inputs.resource.owner):
            answers.append(await execute(self._cluster, change))
            self._cache.note(answers[-1])
        known = self._cache.inputs(key, now=inputs.now) if answers else inputs  # nothing done, nothing new
        told = report(known or inputs, result, answers)
        await self._publish(inputs, told.status)
        return told.again

    async def _publish(self, inputs: Inputs, status: Status) -> None:
        """Write the status if it says something new; if the resource has changed meanwhile, its event asks again."""
        if status == inputs.resource.status:
            return
        key, version = inputs.resource.key, inputs.resource.version
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": key.name, "namespace": key.namespace, "resourceVersion": version},
            "status": status.dump(),
        }
        written = await self._cluster.apply_status(Ref(INFERENCE_DEPLOYMENT, key.namespace, key.name), body)
        if written is not None:
            self._cache.put(written)
            self._tell(inputs.resource, events(inputs.resource.status, status))
