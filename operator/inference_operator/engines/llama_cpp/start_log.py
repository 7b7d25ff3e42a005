"""The log of llama-server's start: its phase, and why it ended. Messages are those of llama.cpp 0.7.0 and ggml 0.27."""

import re
from collections.abc import Mapping

from inference_operator.engines.known_error import known_errors
from inference_operator.engines.start_log import Phase

PHASES: Mapping[Phase, re.Pattern[str]] = {
    Phase.LOADING: re.compile(r" load_model: loading model '"),
    Phase.WARMING_UP: re.compile(r" load_model: initializing, n_slots = \d+"),
}
"""tools/server/server-context.cpp."""

ERRORS = known_errors(__package__, "errors")
