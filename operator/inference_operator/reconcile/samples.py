"""What the pods' metrics told last: fed by `scrape`, read by every decision."""

from collections.abc import Iterable

from inference_operator.observed.pod import PodView
from inference_operator.observed.samples import RouterSample, Samples, Watched


class SampleStore:
    """Samples by the pods' uids. A decision sees nothing of a pod whose last look failed: missing is never zero."""

    def __init__(self) -> None:
        self._engines: dict[str, Watched] = {}
        self._routers: dict[str, RouterSample] = {}
        self._missing: set[str] = set()

    def engine(self, uid: str) -> Watched | None:
        """What an engine told when it did so last, if that was before a look that failed too."""
        return self._engines.get(uid)

    def see_engine(self, uid: str, seen: Watched) -> None:
        """Remember what an engine told."""
        self._engines[uid] = seen
        self._missing.discard(uid)

    def correct(self, uid: str, seen: Watched) -> None:
        """Remember more of what an engine told; whether its last look failed stays as it is."""
        self._engines[uid] = seen

    def see_router(self, uid: str, seen: RouterSample) -> None:
        """Remember what a router told."""
        self._routers[uid] = seen
        self._missing.discard(uid)

    def miss(self, uid: str) -> None:
        """Remember that a pod could not be asked."""
        self._missing.add(uid)

    def of(self, pods: Iterable[PodView]) -> Samples:
        """What is known of these pods now."""
        uids = [pod.uid for pod in pods if pod.uid not in self._missing]
        return Samples(
            {uid: self._engines[uid] for uid in uids if uid in self._engines},
            {uid: self._routers[uid] for uid in uids if uid in self._routers},
        )

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Forget the pods that are gone."""
        staying = set(uids)
        self._engines = {uid: seen for uid, seen in self._engines.items() if uid in staying}
        self._routers = {uid: seen for uid, seen in self._routers.items() if uid in staying}
        self._missing &= staying
