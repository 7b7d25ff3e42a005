"""`spec.autoscaling.schedule`: more engines at known times."""

from pydantic import Field

from inference_operator.api.time_window import TimeWindow

MAX_REPLICAS = 256
"""Routers have up to twice as many server slots, and HAProxy takes 682 records from DNS (`router/haproxy.py`)."""

MAX_ENTRIES = 16


class ScheduleSpec(TimeWindow):
    """A time with more engines."""

    min_replicas: int = Field(
        ge=1, le=MAX_REPLICAS, description="Minimum number of engines in the window. Required. Change: in place."
    )
