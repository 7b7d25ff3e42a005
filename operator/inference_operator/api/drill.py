"""The annotation of `infd drill` that lowers the number of engines for a while. Afterwards it means nothing.

The operator keeps the deadline, so that a drill that is killed leaves no service with too few engines.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DRILL_ANNOTATION = "inference-operator.dev/drill"
MOST = timedelta(minutes=10)
"""Longest time: a later deadline is a mistake, and has no effect. The command puts its own off each few seconds."""
_FORM = re.compile(r"([0-9]{1,4}) engines? until ([0-9TZ:-]{20})")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Drill:
    replicas: int
    until: datetime

    @property
    def text(self) -> str:
        return f"{self.replicas} engine{'s' * (self.replicas != 1)} until {self.until.strftime(_TIME)}"


def drill_of(annotations: Mapping[str, object], now: datetime) -> Drill | None:
    """The drill that goes on; None without one, after its end, and for a text of another form."""
    found = _FORM.fullmatch(str(annotations.get(DRILL_ANNOTATION, "")))
    if found is None:
        return None
    try:
        until = datetime.strptime(found[2], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Drill(int(found[1]), until) if now < until <= now + MOST else None
