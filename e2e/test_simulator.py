"""The simulated engine is like the real one: same form of answers and metrics."""

import asyncio
import json

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.simulator.forms import RECORDED, forms

TRIES = 10


def test_the_recorded_form_of_answers_and_metrics_is_that_of_the_real_engine(tiny: Served) -> None:
    (address,) = tiny.pods("engine").values()
    recorded = json.loads(RECORDED.read_text())
    # An engine that is faster than its client joins tokens, and a stream then lacks a form; not each time.
    for _ in range(TRIES):
        real = asyncio.run(forms(f"http://{stack.authority(address, 8000)}", tiny.name))
        if real == recorded:
            break
    assert real == recorded
