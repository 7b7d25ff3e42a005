"""Limits of a request to vLLM: samples and tokens, and media of other hosts, which it names by URL."""

import json
from collections.abc import Iterator, Sequence

from inference_operator.api.generation import GenerationSpec
from inference_operator.engines.vllm.memory import version_of

ALLOWED_DOMAINS = "--allowed-media-domains"
"""Names with which the host of a URL is compared, before DNS and without its port. A `data:` URL is not compared
(vLLM 0.32.0, multimodal/media/connector.py)."""
ALLOWED_DOMAINS_SINCE = (0, 11)
"""The first version that has the option (0.11.0, vllm/engine/arg_utils.py; 0.10.2 has none). An earlier one would not
start with it."""
NO_HOST = "No-Host-Is-Allowed.invalid."
"""The only allowed name while the spec allows none: vLLM takes an empty list for all hosts. It equals no host of a URL,
which vLLM writes in lower case. It also has no address: `invalid` is reserved (RFC 2606), and with the dot at its end
no search domain of the cluster is added."""
REDIRECTS = "VLLM_MEDIA_URL_ALLOW_REDIRECTS"
"""Whether vLLM follows redirects. It compares only the first host (0.32.0, vllm/envs.py)."""
ENVIRONMENT = {REDIRECTS: "0"}
OVERRIDE = "--override-generation-config"
"""Replaces values of the model's `generation_config.json`, which vLLM takes for requests that name none. It takes
`max_new_tokens` for the most tokens of any answer (vLLM 0.32.0, vllm/config/model.py, `get_diff_sampling_param`)."""
MAX_N = "VLLM_MAX_N_SEQUENCES"
"""The largest `n` of a request (vLLM 0.32.0, vllm/envs.py; default 16,384). Earlier versions ignore it."""
_NAMES = {"max_tokens": "max_new_tokens"}


def media_arguments(domains: Sequence[str], version: str) -> Sequence[str]:
    """The arguments that allow these hosts only; none for a version that is known to have no such option.

    Another option must follow, because the list of names ends there.
    """
    known = version_of(version)
    if known is not None and known < ALLOWED_DOMAINS_SINCE:
        return []
    return [ALLOWED_DOMAINS, *(domains or [NO_HOST])]


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
