"""The order of the queue: the values of fairness.cfg.j2.

Its map has the present turn in milliseconds. It is empty, and `entry.lua` fills it.
"""

from collections.abc import Mapping

from inference_operator.router.clients import SOURCE
from inference_operator.router.inputs import RouterInputs

LONGEST_TURN_MS = 60_000
"""Of `entry.lua`: until it is known how fast places become free."""

MOST_USERS = "16k"
"""A Secret has no room for more keys, nor a process for more connections."""

EXPIRE_SECONDS = 10
"""How long a user without requests counts among those who share the places."""

BEHIND_TLV, CLASS_TLV = "0xE0", "0xE1"
"""Types for own use (PROXY protocol 2.2.8, `PP2_TYPE_MIN_CUSTOM`)."""


def values(inputs: RouterInputs) -> Mapping[str, object]:
    return {
        "source": SOURCE,
        "asks_keys": inputs.spec.keys is not None,
        "longest_ms": LONGEST_TURN_MS,
    }
