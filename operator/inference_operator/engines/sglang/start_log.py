"""The log of SGLang's start: its phase, how much of the weights is loaded, and why it ended (0.5.23).

The log of a real start was not recorded: the messages are those of the source.
"""

import re
from collections.abc import Mapping

from inference_operator.engines.known_error import known_errors
from inference_operator.engines.shared_errors import SHARED_ERRORS
from inference_operator.engines.start_log import Phase

PHASES: Mapping[Phase, re.Pattern[str]] = {
    # srt/distributed/device_communicators/pynccl.py
    Phase.CONNECTING: re.compile(r"sglang is using nccl=="),
    # srt/model_executor/model_runner.py
    Phase.LOADING: re.compile(r"Load weight begin\. avail mem="),
    # srt/mem_cache/kv_cache_configurator.py
    Phase.WARMING_UP: re.compile(r"Memory pool end\. "),
    # srt/model_executor/model_runner_components/cuda_graph_setup.py
    Phase.CAPTURING: re.compile(r"Capture [\w ]{1,40}CUDA graph begin\."),
}
LOADED = re.compile(r"(?:checkpoint shards|loading shards):\s+(\d{1,2})% Completed")
"""srt/model_loader/weight_utils.py, with tqdm."""

ERRORS = known_errors(__package__, "errors", SHARED_ERRORS)
