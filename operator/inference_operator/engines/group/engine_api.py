"""The API of the leader's engine, and its drain. A part of the program of each member; standard library only."""

import asyncio
import re
import time
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from inference_operator.engines.group.options import Options

ANSWER_SECONDS, METRICS_SECONDS = 60.0, 5.0
MOST_TIMEOUTS = 3
"""Answers to wait for in vain before an engine counts as failed: three minutes. A busy one answers late."""


class LeaderApi:
    """The leader's engine. Threads ask it, so that nothing waits for it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.healthy, self.timeouts = False, 0

    async def look(self) -> None:
        """Ask for its health. Only a refusal or an error counts at once."""
        try:
            status, _ = await asyncio.to_thread(self.ask, self.options.path, ANSWER_SECONDS)
        except TimeoutError:
            self.timeouts += 1
            self.healthy = self.healthy and self.timeouts < MOST_TIMEOUTS
        except (OSError, HTTPException):
            self.healthy = False
        else:
            self.healthy, self.timeouts = status == HTTPStatus.OK, 0

    async def at_work(self) -> bool:
        """Whether it has requests, or does not say."""
        try:
            _, text = await asyncio.to_thread(self.ask, "/metrics", METRICS_SECONDS)
            named = ((re.split("[{ ]", line, maxsplit=1)[0], line) for line in text.splitlines())
            counts = [float(line.split()[-1]) for name, line in named if name in self.options.metrics]
        except ConnectionRefusedError:
            return False
        except (OSError, HTTPException, ValueError):
            return True
        return not counts or any(counts)

    def ask(self, path: str, seconds: float) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.options.port, timeout=seconds)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()


class Drain:
    """The drain of the leader's engine: it lasts while members ask for it, and until the run ends."""

    def __init__(self, engine: LeaderApi) -> None:
        self.engine, self.options = engine, engine.options
        self.task: asyncio.Task[None] | None = None
        self.asked, self.done = 0.0, False

    def ask(self) -> None:
        self.asked = time.monotonic()
        if self.task is None:
            self.task = asyncio.create_task(self.wait())

    async def wait(self) -> None:
        """Wait until routers know it, and then for the requests. A failed engine has none that would end well."""
        quiet = time.monotonic() + self.options.staleness
        while time.monotonic() < quiet + self.options.drain and self.engine.healthy:
            if time.monotonic() >= quiet and not await self.engine.at_work():
                break
            await asyncio.sleep(self.options.waits.look)
        self.done = True

    def gives_up(self) -> bool:
        if self.task is None or time.monotonic() < self.asked + self.options.waits.lease:
            return False
        self.task.cancel()
        self.task, self.done = None, False
        return True
