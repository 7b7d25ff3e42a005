"""The operator with shorter waits than the shipped one: `python -m tests.testing.impatient_operator`.

They are no settings: nobody shall look for missing kinds all the time, or end an engine before a node can come.
"""

from datetime import timedelta

from inference_operator.app import main
from inference_operator.settings import Settings

SEARCH_SECONDS = 2.0
"""Between two attempts to list the kinds that the cluster does not have; shipped, 30 s."""
SURGE_WAIT_SECONDS = 15
"""How long a rollout waits for a node; the least that the setting allows is 30 s."""


class ImpatientSettings(Settings):
    """Settings of the environment, with a shorter wait for nodes."""

    @property
    def surge_wait(self) -> timedelta | None:
        return super().surge_wait and timedelta(seconds=SURGE_WAIT_SECONDS)


def run() -> None:
    """Run the operator until it is stopped."""
    main(read_settings=ImpatientSettings, search_seconds=SEARCH_SECONDS)


if __name__ == "__main__":
    run()
