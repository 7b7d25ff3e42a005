"""An event loop whose clock jumps to the next timer instead of waiting for it."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Jumping(selectors.DefaultSelector):
    """A selector that never waits: it advances the clock by the timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen again"
            self.elapsed += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(coroutine)
