"""Runs one member of an engine over several nodes, so that its pods start, drain and end as one.

Arguments: size= control= health= port= path= metric=... start= silence= staleness= drain= stop= [host=] [message=]
[variable=] [leader-arg=...] [worker-arg=...] -- COMMAND...; variables: GROUP_RANK, GROUP_SERVICE, POD_NAME, POD_IP.

1. Rank 0 leads. It listens on the control port. Workers connect, again and again, and say who they are. Only the pods
   of its own StatefulSet and Service are members, from the addresses that DNS gives for their names; others are dropped
   after five seconds or 4 KiB.
2. Once all have joined, the leader says go, with its address and the id of this run. Then each member starts the
   command. A connection belongs to one run: nobody joins a run that has begun.
3. Both ends of a connection send ten heartbeats in the time of `silence`. If a command ends, a connection breaks or a
   member is silent, the run is over: each member kills all that it has started, and ends. Kubelets start them again.
4. The member that ended first leaves its termination message empty, so that Kubernetes shows its log. The others name
   it. The status is 0 only for a member that got SIGTERM.
5. GET /ready: the leader's engine is healthy and not in drain; workers repeat what the leader says. GET /live fails
   only on a leader whose engine has been healthy and is no more. An engine that answers late stays healthy for three
   minutes. One that is not healthy within `start` after go ends the run. GET /state is for the operator.
6. POST /drain, from this pod alone and again each second, takes the group out of rotation. It says when all requests
   are done; at once, if there is nothing to wait for. A minute after the last POST without an end of the run, the group
   serves again.
7. SIGTERM ends the group in order: the leader's command finishes its requests first, also if a worker was asked. A
   command that has never been healthy is killed: it may forget the signal.
8. It is the first process of its container, so it takes note of the ends of all orphans.
"""

import asyncio
import logging
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from ipaddress import ip_address

from inference_operator.engines.group.group_state import SERVING, STARTING, WAITING, GroupState
from inference_operator.engines.group.http_page import HttpPage
from inference_operator.engines.group.options import (
    EXIT,
    FAILED,
    LOST,
    SILENT,
    SLOW,
    STOPPED,
    WAITS,
    EndCause,
    Options,
    Waits,
    Words,
    exit_status,
)
from inference_operator.engines.group.peers import LINE_BYTES, TIMED_OUT, Peer, Visitors, addresses, listener, source
from inference_operator.engines.group.processes import adopt_orphans, kill_descendants

CONNECT_SECONDS, KILL_SECONDS, KILL_PERIOD_SECONDS = 15.0, 5.0, 0.02
PAUSED_BEATS = 3
"""Heartbeats that a member misses which was paused itself. It does not know then who else was silent."""
NOT_FOUND, BY_SIGNAL = 127, 128
LOG = logging.getLogger("group")


class Member(GroupState):
    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.visitors, self.began = Visitors(), 0.0
        self.doubted: set[int] = set()
        self.child: subprocess.Popen[bytes] | None = None
        self.over: asyncio.Future[EndCause] = asyncio.get_running_loop().create_future()
        self.asked = False
        self.tasks: list[asyncio.Future[None]] = []

    async def live(self) -> EndCause:
        options, loop, leads = self.options, asyncio.get_running_loop(), not self.options.rank
        loop.add_signal_handler(signal.SIGTERM, self.stop_asked)
        loop.add_signal_handler(signal.SIGCHLD, self.reap)
        LOG.info("Rank %d of %d waits for %s", options.rank, options.size, ", ".join(self.missing()))
        checks = {"/ready": self.ready, "/live": self.alive, "/state": lambda: True}
        page = HttpPage(Visitors(), self.state, checks, self.ask_drain)
        servers = [await asyncio.start_server(page.answer, sock=listener(options.health), limit=LINE_BYTES)]
        if leads:
            servers += [await asyncio.start_server(self.meet, sock=listener(options.control), limit=LINE_BYTES)]
        work = (self.beat(), self.watch(), self.learn()) if leads else (self.beat(), self.join())
        self.tasks = [asyncio.ensure_future(task) for task in work]
        cause = await self.over
        self.tasks[0].cancel()
        for server in servers:
            server.close()
        return cause

    # Joining

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a worker into the group, and listen to it until its connection ends."""
        peer = Peer(reader, writer)
        words = await self.visitors.first_line(peer)
        rank = next((one for one in range(1, self.options.size) if words == self.options.hello(one)), 0)
        known = bool(rank) and self.phase == WAITING and await self.known(rank, writer)
        self.visitors.leave(writer)
        if not known or self.phase != WAITING or self.over.done() or writer.is_closing() or reader.at_eof():
            peer.close()
            return
        if former := self.peers.pop(rank, None):
            former.close()
        peer.trust(self.options.silence)
        self.peers[rank] = peer
        LOG.info("%s has joined", self.options.name(rank))
        if not self.missing():
            self.run = secrets.token_hex(8)
            for one in self.peers.values():
                one.send({"go": self.options.address, "run": self.run})
            self.start(self.options.address)
        await self.follow(rank, peer)

    async def learn(self) -> None:
        """Ask for the addresses of members that have not joined, whose connections no stranger keeps out."""
        while self.phase == WAITING:
            found = [await addresses(self.options.host(rank)) for rank in range(1, self.options.size)]
            self.visitors.members = {address for some in found for address in some}
            await asyncio.sleep(self.options.waits.retry)

    async def known(self, rank: int, writer: asyncio.StreamWriter) -> bool:
        """Whether a connection comes from a member's own pod. The log says once that another one did not."""
        given, seen = await addresses(self.options.host(rank)), source(writer)
        if seen not in given and rank not in self.doubted:
            self.doubted.add(rank)
            told = ", ".join(map(str, given)) or "none"
            LOG.info("%s is not taken yet: it comes from %s; DNS has %s", self.options.name(rank), seen, told)
        return seen in given

    async def join(self) -> None:
        options, said = self.options, ""
        while self.phase == WAITING:
            try:
                opening = asyncio.open_connection(options.host(0), options.control, limit=LINE_BYTES)
                peer = Peer(*await asyncio.wait_for(opening, CONNECT_SECONDS))
                peer.trust(options.silence)
            except (OSError, *TIMED_OUT) as error:
                problem = str(error) or "no answer"
            else:
                self.peers[0] = peer
                peer.send(options.hello(options.rank))
                await self.follow(0, peer)
                problem = "it closed the connection"
            if problem != said and self.phase == WAITING:
                LOG.info("The leader cannot be reached yet: %s", problem)
                said = problem
            await asyncio.sleep(options.waits.retry)

    async def follow(self, rank: int, peer: Peer) -> None:
        hear = self.hear_leader if self.options.rank else self.hear_worker
        while words := await peer.read():
            hear(rank, words)
        peer.close()
        if self.peers.get(rank) is peer:
            if self.phase == WAITING:
                del self.peers[rank]
            self.told = {}
            self.end(EndCause(rank, LOST))

    def start(self, leader: str) -> None:
        if self.over.done():
            return
        self.phase, self.began = STARTING, time.monotonic()
        LOG.info("All %d members have joined: the engine starts", self.options.size)
        own = {self.options.variable: self.options.address} if self.options.variable else {}
        command = self.options.started(leader)
        try:
            self.child = subprocess.Popen(command, env={**os.environ, **own}, start_new_session=True)  # noqa: S603
        except OSError as error:
            LOG.error("The engine cannot be started: %s", error)  # noqa: TRY400 - one line
            self.end(EndCause(self.options.rank, EXIT, NOT_FOUND))

    # What is heard and said

    def hear_worker(self, rank: int, words: Words) -> None:
        if self.phase == WAITING:
            return
        if "ended" in words:
            self.end(EndCause(rank, EXIT, exit_status(words["ended"])))
        elif "leaving" in words:
            self.stop(EndCause(rank, STOPPED))
        elif words.get("drain"):
            self.ask_drain()

    def hear_leader(self, _: int, words: Words) -> None:
        if self.phase == WAITING and "go" in words:
            with suppress(ValueError):
                address = str(ip_address(str(words["go"])))
                self.run = str(words.get("run"))
                self.start(address)
        elif "end" in words:
            self.end(self.options.cause(words))
        elif words.get("beat") == self.run:
            self.told = words
        else:
            self.end(EndCause(0, LOST))

    async def beat(self) -> None:
        """Send heartbeats, and find out who is silent or slow."""
        options, ticked = self.options, time.monotonic()
        while True:
            await asyncio.sleep(options.beat)
            paused = time.monotonic() > ticked + PAUSED_BEATS * options.beat
            ticked = time.monotonic()
            for rank, peer in list(self.peers.items()):
                peer.heard = ticked if paused else peer.heard
                if ticked > peer.heard + options.silence:
                    self.end(EndCause(rank, SILENT, options.silence))
                    if self.phase == WAITING:
                        peer.close()
                peer.send(self.heartbeat())
            if self.phase == STARTING and not options.rank and ticked > self.began + options.start:
                self.end(EndCause(0, SLOW, options.start))
            if self.drain.gives_up():
                LOG.info("Nobody waits for the drain any more: the engine serves again")

    async def watch(self) -> None:
        while True:
            if self.phase != WAITING:
                await self.engine.look()
            if self.engine.healthy and self.phase == STARTING:
                self.phase = SERVING
                LOG.info("The engine serves after %.0f s", time.monotonic() - self.began)
            await asyncio.sleep(self.options.waits.look)

    # Ending

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if self.child and ended[0] == self.child.pid:
                    code = os.waitstatus_to_exitcode(ended[1])
                    self.child.returncode = code
                    number = code if code >= 0 else BY_SIGNAL - code
                    LOG.info("The engine has ended: exit status %d", number)
                    self.end(EndCause(self.options.rank, EXIT, number))

    def stop_asked(self) -> None:
        self.asked = True
        cause = EndCause(self.options.rank, STOPPED)
        if not self.options.rank:
            self.stop(cause)
        elif self.run and self.peers:
            self.peers[0].send({"leaving": True})
            self.end_later(cause, self.options.stop + 2 * self.options.waits.margin)
        else:
            self.order = cause
            self.end(cause)

    def stop(self, cause: EndCause) -> None:
        if self.order is None:
            serves = self.child is not None and self.phase == SERVING
            self.end_later(cause, self.options.stop + self.options.waits.margin if serves else 0)
            if self.child and serves and not self.over.done():
                LOG.info("%s The leader's engine gets SIGTERM", self.options.said(cause))
                os.kill(self.child.pid, signal.SIGTERM)

    def end_later(self, cause: EndCause, seconds: float) -> None:
        """End for this cause after the time, or for any cause before."""
        self.order = self.order or cause
        asyncio.get_running_loop().call_later(seconds, self.end, cause)

    def end(self, cause: EndCause) -> None:
        """End, unless nothing has begun yet. An end in order keeps its cause."""
        if not self.over.done() and (self.phase != WAITING or self.order):
            self.over.set_result(self.order or cause)

    async def finish(self, cause: EndCause) -> int:
        """The exit status, once the others know the cause and all processes have ended."""
        own, options = cause.rank == self.options.rank, self.options
        LOG.info("%s", options.said(cause))
        for peer in self.peers.values():
            if self.run and not options.rank:
                peer.send({"end": cause.rank, "how": cause.how, "number": cause.number})
            elif own and cause.how == EXIT:
                peer.send({"ended": cause.number})
            peer.finish()
        deadline = time.monotonic() + KILL_SECONDS
        while kill_descendants() and time.monotonic() < deadline:
            await asyncio.sleep(KILL_PERIOD_SECONDS)
            self.reap()
        with suppress(*TIMED_OUT):  # a connection that is closed with unread lines could lose this member's last one
            gone = asyncio.gather(*(peer.closed.wait() for peer in self.peers.values()))
            await asyncio.wait_for(gone, options.waits.linger)
        if not own:
            with suppress(OSError):
                options.message.write_text(options.said(cause), encoding="utf-8")
        failed = (cause.number if own and cause.how == EXIT else 0) or FAILED
        return 0 if self.asked else failed


async def run(options: Options) -> int:
    member = Member(options)
    return await member.finish(await member.live())


def main(waits: Waits = WAITS) -> None:
    """Run the member. It does not wait for threads that ask the engine or DNS."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(asctime)s group: %(message)s")
    adopt_orphans()
    status = asyncio.new_event_loop().run_until_complete(run(Options(sys.argv[1:], os.environ, waits)))
    logging.shutdown()
    os._exit(status)


if __name__ == "__main__":
    main()
