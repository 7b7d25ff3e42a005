"""The operator on a machine whose clock is wrong: `python -m tests.apiserver.wrong_clock SECONDS`.

SIGUSR1 sets the clock, wrong by as much in the other direction.
"""

import signal
import sys
import time

import time_machine

from tests.testing.impatient_operator import run as run_operator


def run(ahead: float) -> None:
    """Run it, with a clock that is ahead by so many seconds."""
    with time_machine.travel(time.time() + ahead) as clock:
        signal.signal(signal.SIGUSR1, lambda *_: clock.shift(-2 * ahead))
        run_operator()


if __name__ == "__main__":
    run(float(sys.argv[1]))
