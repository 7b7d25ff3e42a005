"""Methods of quantization and of attention of vLLM, and models that must not run in float16: the table of its image.

Sparse latent attention is chosen by a model's `index_topk`. Its kernels are those of the backends that the table's row
is made from; DeepSeek V4 takes its own classes, which need the same GPUs (0.32.0, `models/deepseek_v4/nvidia/model.py`,
`_select_dsv4_attn_cls`; `v1/attention/ops/flashmla.py`, `is_flashmla_sparse_supported`).

`python -m e2e.vllm_options` writes the table inside the image, and a test there compares the two.
"""

from importlib.resources import files

from inference_operator.engines.vllm.options import VERSION
from inference_operator.sizing.gpu_support import GpuSupport, Method

_TABLE = files(__package__).joinpath(f"methods-{VERSION}.txt").read_text(encoding="utf-8")
_METHOD, _SPARSE_MLA, _NO_FLOAT16 = "method", "sparse-mla", "no-float16"
_TENS = 10
"""vLLM writes a compute capability of 8.9 as 89."""


def _support(table: str) -> GpuSupport:
    rows = [line.split() for line in table.splitlines()]
    methods = {
        name: Method(divmod(int(capability), _TENS), frozenset(types))
        for kind, name, capability, *types in (row for row in rows if row[0] == _METHOD)
    }
    without_float16 = frozenset(row[1] for row in rows if row[0] == _NO_FLOAT16)
    majors = (major for kind, *found in rows if kind == _SPARSE_MLA for major in found)
    return GpuSupport(methods, without_float16, sparse_mla=tuple(int(major) for major in majors))


SUPPORT = _support(_TABLE)
"""Of the release's version; it stands for all versions."""
