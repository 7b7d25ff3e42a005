"""Planned faults of requests, before or after the request takes effect."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is raised instead of an answer."""

    error: BaseException
    took_effect: bool

    def strike(self, act: Callable[[], object]) -> BaseException:
        if self.took_effect:
            act()
        return self.error


class Faults:
    """Those to come: of writes in their order, and of requests by number."""

    def __init__(self) -> None:
        self._writes: deque[tuple[Fault, int]] = deque()
        self._requests: dict[int, Fault] = {}

    def next_write(self, fault: Fault, *, skip: int) -> None:
        self._writes.append((fault, skip))

    def at(self, number: int, fault: Fault) -> None:
        self._requests[number] = fault

    def on_write(self, act: Callable[[], Result]) -> Result:
        if not self._writes:
            return act()
        fault, skip = self._writes.popleft()
        if skip:
            self._writes.appendleft((fault, skip - 1))
            return act()
        raise fault.strike(act)

    def on_request(self, number: int, act: Callable[[], Result]) -> Result:
        if number not in self._requests:
            return act()
        raise self._requests[number].strike(act)
