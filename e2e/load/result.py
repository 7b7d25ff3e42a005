"""The result of a phase of load."""

import json
from collections import Counter
from dataclasses import dataclass

from inference_operator.cli.drill.promises import NO_LIMITS, CheckedAnswer, Fault, Limits, Loss, beyond, longest_gap

_SHOWN_CHARACTERS = 80


class LoadError(Exception):
    """A phase of load that did not do what it is needed for; the message is one line."""


def is_clean_error(answer: CheckedAnswer) -> bool:
    """Whether the client got an error in the OpenAI API's format, with a code."""
    if answer.loss is not Loss.STATUS:
        return False
    try:
        error = json.loads(answer.detail)["error"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(error, dict) and bool(error.get("code")) and bool(error.get("message"))


@dataclass(frozen=True, slots=True)
class Result:
    """All answers of a phase; `fault` is the marked time of the test's fault, or None."""

    name: str
    in_flight: int
    answers: tuple[CheckedAnswer, ...]
    fault: float | None = None

    @property
    def sent(self) -> int:
        """Number of requests sent."""
        return len(self.answers)

    @property
    def ok(self) -> int:
        """Number of complete and correct answers."""
        return sum(answer.ok for answer in self.answers)

    @property
    def rejected(self) -> int:
        """Number of answers with the documented 429."""
        return sum(answer.rejected for answer in self.answers)

    @property
    def lost(self) -> tuple[CheckedAnswer, ...]:
        """The lost requests."""
        return tuple(answer for answer in self.answers if answer.loss is not None)

    @property
    def lost_later(self) -> tuple[CheckedAnswer, ...]:
        """The lost requests that were sent after the fault."""
        if self.fault is None:
            raise ValueError(f"phase {self.name!r} marked no fault")
        return tuple(answer for answer in self.lost if answer.started > self.fault)

    def beyond(self, fault: Fault, limits: Limits = NO_LIMITS) -> tuple[CheckedAnswer, ...]:
        """The lost requests that no promise about the fault allows."""
        return beyond(fault, self.lost, self.fault, limits)

    @property
    def slowest(self) -> float:
        """Duration of the slowest correct answer in seconds."""
        return max((answer.seconds for answer in self.answers if answer.ok), default=0.0)

    @property
    def gap(self) -> float:
        """The longest time in seconds without a correct answer."""
        return longest_gap(self.answers)

    @property
    def seconds(self) -> float:
        """Seconds from the first request to the last answer."""
        if not self.answers:
            return 0.0
        return max(a.ended for a in self.answers) - min(a.started for a in self.answers)

    def losses(self) -> list[str]:
        """One line for each lost request, in order: times of request and loss relative to the fault, and the reason."""
        origin = self.fault if self.fault is not None else min((a.started for a in self.answers), default=0.0)
        return [
            f"{answer.started - origin:+.2f} s to {answer.ended - origin:+.2f} s: {answer.loss}"
            f" ({'stream' if answer.streamed else 'plain'}, {'kept' if answer.kept else 'new'} connection)"
            f" {answer.status or ''} {answer.detail[:_SHOWN_CHARACTERS]}".rstrip()
            for answer in sorted(self.lost, key=lambda a: a.ended)
        ]

    def __str__(self) -> str:
        rate = self.sent / self.seconds if self.seconds else 0.0
        return (
            f"{self.name}: {self.sent} sent, {self.ok} ok, {self.rejected} rejected, {len(self.lost)} lost"
            f"{self._kinds()}, {self.in_flight} in flight, {rate:.0f}/s, slowest {self.slowest:.1f} s"
        )

    def _kinds(self) -> str:
        if not self.lost:
            return ""
        counts = Counter(f"{a.loss} {a.status}" if a.loss is Loss.STATUS else f"{a.loss}" for a in self.lost)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        if self.fault is None:
            return f" ({kinds})"
        first, last = (f(a.ended for a in self.lost) - self.fault for f in (min, max))
        return (
            f" ({kinds}; {first:+.2f} to {last:+.2f} s after the fault; {len(self.lost_later)} of them sent after it)"
        )
