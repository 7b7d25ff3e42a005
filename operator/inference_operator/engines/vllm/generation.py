"""Sampling parameters of requests that name none, and limits of what a request may ask for."""

import json
from collections.abc import Iterator

from inference_operator.api.generation import GenerationSpec

OVERRIDE = "--override-generation-config"
"""Replaces values of the model's `generation_config.json`, which vLLM takes for requests that name none. It takes
`max_new_tokens` for the most tokens of any answer (vLLM 0.32.0, vllm/config/model.py, `get_diff_sampling_param`)."""

MAX_N = "VLLM_MAX_N_SEQUENCES"
"""The largest `n` of a request (vLLM 0.32.0, vllm/envs.py; default 16,384). Earlier versions ignore it."""

_NAMES = {"max_tokens": "max_new_tokens"}


def generation_arguments(spec: GenerationSpec) -> Iterator[str]:
    """The argument with the values that the spec sets; none if it sets none.

    Examples:
        >>> list(generation_arguments(GenerationSpec(temperature=0.6, topK=20, maxTokens=4096)))
        ['--override-generation-config={"temperature":0.6,"top_k":20,"max_new_tokens":4096}']
        >>> list(generation_arguments(GenerationSpec(maxN=4)))
        []
    """
    stated = spec.model_dump(exclude={"max_n"}, exclude_none=True)
    if stated:
        values = {_NAMES.get(name, name): value for name, value in stated.items()}
        yield f"{OVERRIDE}={json.dumps(values, separators=(',', ':'))}"
