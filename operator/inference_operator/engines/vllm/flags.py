"""Flags and environment variables of vLLM that users may not set: managed, secret, dangerous or removed ones.

Names are those of `vllm serve --help=all` and vllm/envs.py in vLLM 0.32.0; removed ones are of vLLM 0.6 to 0.17
(vllm/engine/arg_utils.py). `infd arguments` prints these tables. Every other option and variable has its class in a
table of `option_classes.py`.
"""

from inference_operator.engines.environment import DANGEROUS, MANAGED
from inference_operator.text_tables import titled

_TABLES = titled(__package__, "flags")
MANAGED_FLAGS = _TABLES["managed flags"]
"""Flags that the operator sets, with the field to use instead."""
SECRET_FLAGS = _TABLES["secret flags"]
"""Flags whose value is a secret, which everyone who can read the pod would see, with the variable to set from a
Secret instead."""
REMOTE_CODE = "--trust-remote-code"
"""Runs code of the repository, which must be pinned to a commit."""
LOAD_FORMAT = "--load-format"
PICKLE_FORMATS = frozenset({"pt", "npcache"})
"""Formats of weights that are unpickled, in lower case, in which vLLM compares them (vLLM 0.32.0, config/load.py,
`load_format`)."""
DANGEROUS_FLAGS = _TABLES["dangerous flags"]
"""Flags that need permission by a setting of the operator, with what each one does."""
REMOVED_FLAGS = _TABLES["removed flags"]
MANAGED_VARIABLES = {**MANAGED, **_TABLES["managed variables"]}
"""Environment variables that the operator sets, with the cure. Users may move the caches, but not the home."""
DANGEROUS_VARIABLES = {**DANGEROUS, **_TABLES["dangerous variables"]}
"""Environment variables that need permission by a setting of the operator, with what each one does."""
