"""Arguments that point vLLM at its model: the revision, and what a claim without a hub forbids."""

from collections.abc import Iterator, Sequence

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.hub_access import REMOVE, refusal_of_moved_cache
from inference_operator.engines.vllm.adapters import refusal_of_hub_adapters
from inference_operator.engines.vllm.cli_args import value_of

DOWNLOAD_DIR = "--download-dir"
REVISION, TOKENIZER, TOKENIZER_REVISION = "--revision", "--tokenizer", "--tokenizer-revision"
CODE_REVISION = "--code-revision"

CACHE_ROOT = "VLLM_CACHE_ROOT"
"""Variable that decides where vLLM keeps what it compiled."""


def refusal_of_cached(spec: EngineSpec) -> Refusal | None:
    """The refusal of what would make vLLM look for its model elsewhere than on the claim, or None."""
    if value_of(spec.args, DOWNLOAD_DIR) is not None:
        problem = f"`{DOWNLOAD_DIR}` is managed by the operator with `spec.cache`."
        return Refusal(Reason.MANAGED_ARGUMENT, "spec.engine.args", problem, REMOVE)
    return refusal_of_moved_cache(spec.env, {CACHE_ROOT}) or refusal_of_hub_adapters(spec.args)


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
