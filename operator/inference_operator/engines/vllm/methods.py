"""Methods of quantization of vLLM, and models that must not run in float16: the table of the engine's image.

`python -m e2e.vllm_options` writes the table inside the image, and a test there compares the two.
"""

from importlib.resources import files

from inference_operator.engines.vllm.options import VERSION
from inference_operator.sizing.gpu_support import GpuSupport, Method

_TABLE = files(__package__).joinpath(f"methods-{VERSION}.txt").read_text(encoding="utf-8")
_METHOD = "method"
_TENS = 10
"""vLLM writes a compute capability of 8.9 as 89."""


def _support(table: str) -> GpuSupport:
    rows = [line.split() for line in table.splitlines()]
    methods = {
        name: Method(divmod(int(capability), _TENS), frozenset(types))
        for kind, name, capability, *types in (row for row in rows if row[0] == _METHOD)
    }
    return GpuSupport(methods, frozenset(row[1] for row in rows if row[0] != _METHOD))


SUPPORT = _support(_TABLE)
"""Of the release's version; it stands for all versions."""
