"""Asks vLLM which features go together: `python -m e2e.engines.combinations` rewrites the table of `generators`."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from e2e.engines import vllm_options
from e2e.test_derived_sizes import MODELS, arguments_of, asked
from generators.combinations import DRAFT, EXPERTS, HEAD, MTP, OF_CLUSTER, PAIRS, PREDICTS, TABLE, Pair, decided
from inference_operator.hardware.kinds import kind_named
from inference_operator.manifest import Manifest
from inference_operator.pipeline.outcomes import Planned

HEAD_FILES: Manifest = {
    "config.json": {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "head_dim": 128,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "num_hidden_layers": 1,
        "max_position_embeddings": 40960,
        "vocab_size": 151936,
        "draft_vocab_size": 32000,
        "torch_dtype": "bfloat16",
    }
}
"""Sizes of a head for `EXPERTS` (sgl-project/SpecForge@d1be954, `configs/qwen3-30B-eagle3.json`)."""
OF_GROUPS = ("several nodes", "a pipeline", "data parallel")
"""Their ranks are other processes: vLLM's configuration is asked, and no layer is made."""


def _of(model: str) -> Manifest:
    found: Manifest = next(one for one in MODELS if one["model"] == model)
    return found


def _arguments(features: tuple[str, ...]) -> list[str] | None:
    found = decided(features)
    return arguments_of(found) if isinstance(found, Planned) else None


def arguments(pair: Pair) -> list[str]:
    """The arguments of a pair; where the operator refuses it, those of both parts together."""
    if rendered := _arguments(pair):
        return rendered
    more = (MTP,) if MTP in pair else ()
    parts = [_arguments((feature,)) or [] for feature in pair]
    base = set(_arguments(more) or [])
    first = parts[0]
    names = {argument.partition("=")[0] for argument in first if argument not in base}
    return [
        *first,
        *(one for one in parts[1] if one not in base and one not in first and one.partition("=")[0] not in names),
    ]


def answers(folder: Path) -> Mapping[Pair, str]:
    """Why vLLM refuses each pair; empty if it does not."""
    gpu = kind_named("H100")
    assert gpu  # noqa: S101 - for the checker of types
    pairs = [pair for pair in PAIRS if not set(pair) & set(OF_CLUSTER)]
    cases = [
        {
            **asked(_of(PREDICTS if MTP in pair else EXPERTS), gpu),
            "arguments": arguments(pair),
            "start": not set(pair) & set(OF_GROUPS),
            "drafts": {DRAFT: _of(DRAFT)["files"], HEAD: HEAD_FILES},
        }
        for pair in pairs
    ]
    guess = '--speculative-config={"method":"mtp","num_speculative_tokens":1}'
    impossible = {**asked(_of(EXPERTS), gpu), "arguments": [*(_arguments(()) or ()), guess], "start": True}
    *results, refused = vllm_options.derived([*cases, impossible], folder, tables=False)["derived"]
    if "error" not in refused:
        raise ValueError("vLLM was not asked: it accepts a model without the layers that shall guess")
    return {pair: _line(result.get("error", "")) for pair, result in zip(pairs, results, strict=True)}


def _line(error: str) -> str:
    return " ".join(error.split())[:300]


def text(found: Mapping[Pair, str]) -> str:
    return "".join(f"{one}\t{other}\t{error}\n" for (one, other), error in found.items())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        TABLE.write_text(text(answers(Path(root))), encoding="utf-8")
        print(json.dumps(str(TABLE)))
