"""Architectures of `transformers serve`: those it computes in batches, and those it computes one request at a time.

`python -m e2e.engines.architectures` writes the table inside the engine's image: it makes a small model of each
architecture, and compares the answers of continuous batching with those of `generate`.
"""

from inference_operator.engines.model_access import Support
from inference_operator.text_tables import rows

VERSION = "5.19.0"
BATCHED = "batched"
_MODES: dict[str, str] = dict(rows(__package__, f"architectures-{VERSION}.txt"))
_COMMON = "There are no adapters, no sizes over several GPUs, no log probabilities and no stop strings."


def support(architecture: str) -> Support:
    mode = _MODES.get(architecture)
    if mode is None and architecture:
        version = VERSION.rpartition(".")[0]
        return Support(f"Transformers {version} serves text models only, and knows no `{architecture}` among them.")
    if mode == BATCHED:
        return Support(implementation=BATCHED, lost=f"Transformers computes fewer tokens per second. {_COMMON}")
    why = "Transformers computes this architecture" if mode else "Nothing is known about the model, so it is computed"
    return Support(lost=f"{why} one request at a time; others wait in the router. {_COMMON}")
