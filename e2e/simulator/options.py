"""Speed and sizes of the simulated engine: variables `SIMULATOR_…`, and arguments of `vllm serve` that say the same."""

from argparse import ArgumentParser
from collections.abc import Sequence

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_PORT = 8000
"""vLLM's own."""


class Options(BaseSettings):
    """Constants of the simulation. The defaults are round numbers near an 8B model on one large GPU, no measurement."""

    model_config = SettingsConfigDict(env_prefix="SIMULATOR_", frozen=True)

    max_num_seqs: int = Field(256, ge=1, description="Most sequences in a batch.")
    max_num_batched_tokens: int = Field(8192, ge=1, description="Most tokens that one step computes.")
    max_num_queued_reqs: int = Field(0, ge=0, description="Most waiting requests; more get 503. 0: no limit.")
    max_model_len: int = Field(32_768, ge=2, description="Tokens of a prompt and its answer.")
    kv_cache_tokens: int = Field(400_000, ge=1, description="Tokens that fit the KV cache.")
    prefix_cache: bool = Field(default=True, description="Whether a prompt's known beginning is not computed again.")
    prefill_tokens_per_second: float = Field(20_000, gt=0, description="Tokens of prompts computed in a second.")
    decode_step_seconds: float = Field(0.01, ge=0, description="Duration of a step of the smallest batch.")
    decode_sequence_seconds: float = Field(0.0001, ge=0, description="What each decoding sequence adds to a step.")
    start_seconds: float = Field(0, ge=0, description="Time before the port is open, in which an engine would load.")
    answer_tokens: int = Field(128, ge=1, description="Length at which an answer ends by itself.")
    names: tuple[str, ...] = ("simulated",)
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT


def parsed(arguments: Sequence[str]) -> tuple[Options, list[str]]:
    """The options of a command line, and the arguments of vLLM that change nothing here.

    Examples:
        >>> options, ignored = parsed(["org/model", "--served-model-name", "a", "b", "--max-num-seqs=4", "-q"])
        >>> options.names, options.max_num_seqs, ignored
        (('a', 'b'), 4, ['-q'])
    """
    parser = ArgumentParser(prog="vllm serve", allow_abbrev=False)
    parser.add_argument("model", nargs="?", default="simulated")
    parser.add_argument("--served-model-name", nargs="+", dest="names")
    parser.add_argument("--host")
    for name in ("port", "max-num-seqs", "max-num-batched-tokens", "max-num-queued-reqs", "max-model-len"):
        parser.add_argument(f"--{name}", type=int)
    known, ignored = parser.parse_known_args(arguments)
    given = {name: value for name, value in vars(known).items() if value is not None and name != "model"}
    return Options(**{"names": (known.model,), **given}), ignored
