"""A change of the cluster under load, with the result for the terminal."""

from collections.abc import Callable
from dataclasses import dataclass

from e2e.load import GENTLE_PAUSE_SECONDS, Load, Result
from e2e.runs.printed_figures import Say

AT_MOST = 200_000
"""A limit of requests that no phase reaches."""
SHOWN_LOSSES = 4

UnderLoad = Callable[[str, Callable[[], None]], Result]
"""Does something under load, in a phase of this name."""


@dataclass(frozen=True, slots=True)
class LoadedChange:
    """A change under load; the phase marks the moment at which it begins."""

    load: Load
    say: Say
    at_least: int
    """Requests of the phase."""
    seconds: float
    """Limit of the phase."""
    before: int
    """Requests answered before the change."""
    after: int
    """Requests answered after it."""

    def __call__(self, name: str, act: Callable[[], None]) -> Result:
        """Send requests, act meanwhile, and tell the result."""
        with self.load.phase(
            name, at_least=self.at_least, seconds=self.seconds, at_most=AT_MOST, pause=GENTLE_PAUSE_SECONDS
        ) as phase:
            phase.await_answers(self.before)
            phase.mark()
            act()
            phase.await_answers(self.after)
        self.say(f"{phase.result}, longest time without an answer {phase.result.gap:.1f} s")
        for line in phase.result.losses()[:SHOWN_LOSSES]:
            self.say(f"  {line}")
        return phase.result
