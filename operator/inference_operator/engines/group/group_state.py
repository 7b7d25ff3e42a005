"""The state of a group, as one member knows it. A part of the program of each member; standard library only."""

import time

from inference_operator.engines.group.engine_api import Drain, LeaderApi
from inference_operator.engines.group.options import EndCause, Options, Words
from inference_operator.engines.group.peers import Peer

WAITING, STARTING, SERVING, DRAINING = "waiting", "starting", "serving", "draining"


class GroupState:
    def __init__(self, options: Options) -> None:
        self.options, self.engine = options, LeaderApi(options)
        self.drain, self.drain_until = Drain(self.engine), 0.0
        self.phase, self.run = WAITING, ""
        self.peers: dict[int, Peer] = {}  # of the leader: the workers; of a worker: the leader
        self.told: Words = {}  # the leader's last heartbeat
        self.order: EndCause | None = None  # for an end in order

    def missing(self) -> list[str]:
        ranks: object = self.told.get("missing") if self.peers else [0]
        if not self.options.rank:
            ranks = self.absent()
        known = ranks if isinstance(ranks, list) else []
        return [self.options.name(rank) for rank in range(self.options.size) if rank in known]

    def absent(self) -> list[int]:
        return [rank for rank in range(1, self.options.size) if rank not in self.peers]

    def heartbeat(self) -> Words:
        if self.options.rank:
            return {"beat": self.run, "drain": time.monotonic() < self.drain_until}
        said = {"phase": self.shown(), "ready": self.ready(), "drained": self.drained(), "missing": self.absent()}
        return {"beat": self.run, **said}

    def shown(self) -> str:
        told = self.told.get("phase")
        if self.options.rank:
            return str(told) if self.run and told in (STARTING, SERVING, DRAINING) else self.phase
        return DRAINING if self.drain.task else self.phase

    def ready(self) -> bool:
        if self.options.rank:
            return bool(self.run) and self.told.get("ready") is True
        return self.engine.healthy and self.shown() == SERVING and self.order is None

    def alive(self) -> bool:
        """Whether no restart would help."""
        return bool(self.options.rank) or self.phase != SERVING or self.engine.healthy

    def drained(self) -> bool:
        if self.options.rank:
            return self.shown() not in (SERVING, DRAINING) or self.told.get("drained") is True
        return self.phase != SERVING or not self.engine.healthy or self.drain.done

    def ask_drain(self) -> None:
        if self.options.rank:
            self.drain_until = time.monotonic() + self.options.waits.repeat
            for leader in self.peers.values():
                leader.send(self.heartbeat())
        elif self.phase == SERVING:
            self.drain.ask()

    def state(self) -> Words:
        missing = self.missing()
        names = [self.options.name(rank) for rank in range(self.options.size)]
        knows = self.peers or not self.options.rank
        joined = [name for name in names if name not in missing] if knows else []
        who = {"rank": self.options.rank, "name": self.options.name(self.options.rank), "size": self.options.size}
        return {**who, "phase": self.shown(), "joined": joined, "missing": missing, "drained": self.drained()}
