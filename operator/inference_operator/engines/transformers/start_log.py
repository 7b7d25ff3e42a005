"""The log of the server's start: its phase, how much of the weights is loaded, and why it ended.

Lines without a source are those of `server_program.py`.
"""

import re
from collections.abc import Mapping

from inference_operator.engines.known_error import known_errors
from inference_operator.engines.shared_errors import SHARED_ERRORS
from inference_operator.engines.start_log import Phase

PHASES: Mapping[Phase, re.Pattern[str]] = {
    Phase.DOWNLOADING: re.compile(r"^Downloading \S", re.MULTILINE),
    Phase.LOADING: re.compile(r"^Loading the weights$", re.MULTILINE),
    Phase.WARMING_UP: re.compile(r"^Warming up$", re.MULTILINE),
}
LOADED = re.compile(r"Loading weights:\s+(\d{1,2})%\|")
"""transformers 5.19.0, core_model_loading.py, with tqdm."""

ERRORS = known_errors(__package__, "errors", SHARED_ERRORS)
