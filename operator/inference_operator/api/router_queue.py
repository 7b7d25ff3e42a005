"""`spec.router.queue` and `spec.router.coldStart`: how many requests wait in a router, and how long."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from inference_operator.api.duration import Within
from inference_operator.api.validation import SpecModel

DEFAULT_WAIT = timedelta(minutes=5)
"""Half of the 10 minutes that the `openai` package waits for an answer (openai-python 2, `DEFAULT_TIMEOUT`)."""

LEAST_SIZE = 2
"""One request for each HAProxy process of a router pod."""

MOST_SIZE = 100_000
"""As many as a router pod with 12.5 GiB of memory can hold."""


class QueueSpec(SpecModel):
    """Queue for requests while all engines are busy."""

    max_size: int | None = Field(
        None,
        ge=LEAST_SIZE,
        le=MOST_SIZE,
        description=(
            "Maximum number of waiting requests per router pod, for a busy engine or for the start of one; more get"
            " 429."
            " Each of the pod's two HAProxy processes takes half, rounded down. Default: 512, or fewer where half of"
            " the"
            " router's memory holds fewer. Change: rolling restart of the routers."
        ),
    )
    timeout: Annotated[timedelta, Within("1s", "30m", "5m")] = Field(
        DEFAULT_WAIT,
        description=(
            "Maximum time that a request waits for a busy engine; then 503. Default: `5m`."
            " Change: rolling restart of the routers."
        ),
    )


class ColdStartSpec(SpecModel):
    """Requests that arrive while no engine is up."""

    timeout: Annotated[timedelta, Within("3s", "30m", "10m")] | None = Field(
        None,
        description="Maximum time that a request is held while no engine is up, for example during a start from zero;"
        " then 503. `queue.maxSize` limits how many are held. Default: `5m`, or `10m`, `20m` or `30m` once an engine's"
        " start was measured to take more than half of it. Change: rolling restart of the routers.",
    )
