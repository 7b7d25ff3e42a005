"""The reconciler: read the inputs, decide, apply the changes, write the status. It has no branch on the spec."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from inference_operator.api.resource import AnyResource
from inference_operator.api.status import ResourceStatus
from inference_operator.controller.cache import Cache
from inference_operator.controller.changes import changes, is_held
from inference_operator.controller.cluster import Cluster, ClusterError, NotLeaderError
from inference_operator.controller.execute import execute
from inference_operator.controller.other_operators import RECHECK, OtherOperators
from inference_operator.manifest import Key, Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.events import Event
from inference_operator.status.report import Requeue, undecided
from inference_operator.status.write_results import Present, WriteResult

OnDue = Callable[[Key], None]
"""Called with each resource that is to be decided because of what another one did: it has waited for its turn to begin
with a change of the owner's settings, or follows the other one."""
OnEvents = Callable[[AnyResource, Sequence[Event]], None]
"""Called with the condition transitions of a status that has just been written."""

SECRET_AGAIN = timedelta(minutes=5)
"""Time until it is tried again to create a Secret: somebody may have deleted it. About that of a resync."""


class KeyStore:
    """The Secrets with keys of engines that exist, as far as attempts to create them have shown: none can be read."""

    def __init__(self) -> None:
        self._found: dict[Ref, datetime] = {}

    def due(self, secret: Manifest | None, now: datetime) -> Manifest | None:
        tried_at = self._found.get(Ref.of(secret)) if secret else None
        return None if tried_at and now - tried_at < SECRET_AGAIN else secret

    def record(self, answer: WriteResult, now: datetime) -> None:
        """Take note of a write; what is over long ago is forgotten."""
        if isinstance(answer, Present):
            self._found = {ref: at for ref, at in self._found.items() if now - at < SECRET_AGAIN}
            self._found[answer.ref] = now


class Reconciler:
    """Reconciles resources of any kind; own writes are recorded in the cache."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        now: Callable[[], datetime],
        on_events: OnEvents | None = None,
        on_due: OnDue = lambda _: None,
        *,
        others: OtherOperators | None = None,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._now = now
        self._on_events = on_events
        self._on_due = on_due
        self._others = others
        self._keys = KeyStore()

    async def handle(self, key: Key) -> Requeue | None:
        """Reconcile. An exception that is no answer of the API server is a bug: the status says so without its text."""
        try:
            return await self.reconcile(key)
        except (ClusterError, NotLeaderError):
            raise
        except Exception:
            self._cache.shared.fleet.fail(key, self._now())
            with suppress(Exception):  # the first exception is the one to report
                if inputs := self._cache.inputs(key, now=self._now()):
                    await self._publish(inputs, undecided(inputs))
            raise
        finally:
            for waiting in self._cache.shared.fleet.next_keys(self._now()):
                self._on_due(waiting)

    async def reconcile(self, key: Key) -> Requeue | None:
        """Bring the children and the status of one resource up to date; returns when to reconcile again."""
        inputs = self._cache.inputs(key, now=self._now())
        if inputs is None:
            self._cache.shared.fleet.forget(key)
            return None
        if self._others and await self._others.other(inputs.resource, inputs.now):
            self._cache.shared.fleet.forget(key)
            return Requeue(RECHECK.total_seconds())
        kind = self._cache.kinds[key.kind]
        decided = kind.decide(inputs)
        self._cache.shared.fleet.note(key, decided.fleet_state, inputs.now)
        self._cache.scaling.want(key, decided.scaling)
        self._cache.samples.await_adapters(key, decided.awaits_adapters)
        results: list[WriteResult] = []
        for change in changes(
            inputs.children,
            decided.desired,
            decided.pods,
            inputs.resource.owner,
            engine_key=self._keys.due(decided.engine_key, inputs.now),
        ):
            if not is_held(change, results):
                results.append(await execute(self._cluster, change))
                for reader in self._cache.record(results[-1]) - {key}:
                    self._on_due(reader)
                self._keys.record(results[-1], inputs.now)
        current = self._cache.inputs(key, now=inputs.now) if results else inputs  # without changes nothing is new
        reported = kind.report(current or inputs, decided, results)
        await self._publish(inputs, reported.status)
        return reported.requeue

    async def _publish(self, inputs: Inputs[Any], status: ResourceStatus) -> None:
        """Write the status if it differs. If the resource has changed meanwhile, its event starts another reconcile."""
        if self._others:
            status = status.model_copy(update={"operator": self._others.claim(inputs.resource)})
        if status == inputs.resource.status:
            return
        key = inputs.resource.key
        body = key.ref.manifest({"resourceVersion": inputs.resource.version}, status=status.dump())
        written = await self._cluster.apply_status(key.ref, body)
        if written is not None:
            for follower in self._cache.put(written) - {key}:
                self._on_due(follower)
            if self._on_events:
                self._on_events(inputs.resource, self._cache.kinds[key.kind].events(inputs.resource.status, status))
