"""Requests that share the start of their prompt go to the same engine: the values of affinity.cfg.j2."""

from collections.abc import Mapping

from inference_operator.api.router import RouterStrategy
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.long_bodies import SEARCHED_BYTES
from inference_operator.router.servers import FULL_WEIGHT

AFFINITY_FILE = "affinity.lua"

BALANCE_FACTOR = 300
"""The limit of one engine, in percent of its fair share of the requests in flight. `bench/affinity.py` measures it: at
150, a third of the hits are lost, since each router process counts only its own requests, which are few; without a
bound, engines close to saturation answer late. Up to three engines it bounds nothing, but HOT_REQUESTS does."""

HOT_REQUESTS = 4
"""Requests of one conversation beyond the fair share of an engine that make it hot. People and agents send the requests
of one conversation one after the other; many at once come from a batch of equal prompts."""

WINDOW_BYTES = 8 * 1024
"""Of a body, in which its texts are looked for without an interruption: 0.2 ms at most (`python -m bench.affinity`)."""


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if inputs.strategy is not RouterStrategy.PREFIX_AFFINITY:
        return None
    return {
        "searched_bytes": SEARCHED_BYTES,
        "model_names": ",".join(inputs.model_names),
        "window_bytes": WINDOW_BYTES,
        "session_header": inputs.spec.session_header,
        "weight": FULL_WEIGHT,
    }
