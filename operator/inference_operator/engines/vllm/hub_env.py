"""How vLLM reaches its model: the environment variables of the hub's client and its HTTP client, and the revision."""

import re
from collections.abc import Iterator, Sequence

from inference_operator.api.container import EnvironmentVariable, KeySelector
from inference_operator.api.spec import HUB_TOKEN
from inference_operator.engines.vllm.cli_args import value_of

REVISION, TOKENIZER, TOKENIZER_REVISION = "--revision", "--tokenizer", "--tokenizer-revision"

_HUB_VARIABLE = re.compile(
    r"HF_.+|HUGGING_?FACE_.+|TRANSFORMERS_OFFLINE|HOME|XDG_CACHE_HOME"
    r"|(?:HTTP|HTTPS|ALL|NO)_PROXY|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE",
    re.IGNORECASE,
)
"""Variables that huggingface_hub (2.4.0, `constants.py`) and its HTTP client read."""


def hub_variables(env: Sequence[EnvironmentVariable]) -> Sequence[EnvironmentVariable]:
    """The variables of an engine that decide how it reaches the hub.

    Examples:
        >>> env = [EnvironmentVariable(name=n, value="1") for n in ("HF_TOKEN", "https_proxy", "VLLM_USE_V1", "HOME")]
        >>> [variable.name for variable in hub_variables(env)]
        ['HF_TOKEN', 'https_proxy', 'HOME']
    """
    return [variable for variable in env if _HUB_VARIABLE.fullmatch(variable.name)]


def with_token(env: Sequence[EnvironmentVariable], token: KeySelector | None) -> tuple[EnvironmentVariable, ...]:
    """The variables with the token of a Secret, which replaces another token, such as that of the owner's defaults.

    Examples:
        >>> found = with_token([EnvironmentVariable(name="HF_TOKEN", value="a")], KeySelector(name="hub", key="token"))
        >>> [(one.name, one.value, one.value_from.secret_key_ref.name) for one in found]
        [('HF_TOKEN', None, 'hub')]
    """
    if token is None:
        return tuple(env)
    variable = EnvironmentVariable.model_validate({"name": HUB_TOKEN, "valueFrom": {"secretKeyRef": token}})
    return (*(one for one in env if one.name != HUB_TOKEN), variable)


def commit_arguments(args: Sequence[str], commit: str) -> Iterator[str]:
    """Arguments that make vLLM load this commit, branch or tag of the model and its tokenizer; none without one.

    A tokenizer of the user's own keeps its revision.

    Examples:
        >>> list(commit_arguments([], "1234abcd"))
        ['--revision=1234abcd', '--tokenizer-revision=1234abcd']
        >>> list(commit_arguments(["--tokenizer=org/other"], "1234abcd")), list(commit_arguments([], ""))
        (['--revision=1234abcd'], [])
    """
    if not commit:
        return
    yield f"{REVISION}={commit}"
    if value_of(args, TOKENIZER) is None and value_of(args, TOKENIZER_REVISION) is None:
        yield f"{TOKENIZER_REVISION}={commit}"
