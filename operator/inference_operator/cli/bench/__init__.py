"""The options of `infd bench`."""

import argparse

from inference_operator.cli.options import add_connection, add_key, add_output, number
from inference_operator.cli.parser import examples

MAX_CONCURRENCY, MOST_CONCURRENCY = 64, 512
"""Default and limit of --max-concurrency: each request is a connection through the API server."""
LEVEL_SECONDS = 20
PROMPT_TOKENS, ANSWER_TOKENS = 256, 128


def add_arguments(bench: argparse.ArgumentParser) -> None:
    bench.description = (
        "Load one InferenceDeployment that serves, with 1, 2, 4 and more requests at once, and measure the time to the"
        " first token (TTFT), the time between pieces of answers (ITL) and the throughput, until"
        " `autoscaling.objective` is broken, a request fails, or --max-concurrency is reached. Users of the service get"
        " slower answers meanwhile, and an autoscaler may add engines; so it asks first. Requests go through the API"
        " server, as with `infd chat`, and need the same rights; times include that way. Exit status 1: the"
        " first level already breaks the objective, or the service refuses."
    )
    bench.epilog = examples(
        "infd bench qwen",
        "infd bench qwen --yes --max-concurrency 16 --seconds 30 -o json",
        "infd bench qwen --prompt-tokens 2000 --max-tokens 50 --key-from my-key/key",
    )
    bench.add_argument("name", help="name of the InferenceDeployment")
    add_connection(bench)
    bench.add_argument("-y", "--yes", action="store_true", help="load the service without asking")
    most, at_once = (
        number(1, MOST_CONCURRENCY),
        f"most requests at once, up to {MOST_CONCURRENCY}; default {MAX_CONCURRENCY}",
    )
    bench.add_argument("--max-concurrency", type=most, default=MAX_CONCURRENCY, metavar="N", help=at_once)
    bench.add_argument(
        "--seconds", type=number(1, 3600), default=LEVEL_SECONDS, metavar="N", help="of each level; default 20"
    )
    bench.add_argument(
        "--prompt-tokens", type=number(1, 100_000), default=PROMPT_TOKENS, metavar="N", help="about; default 256"
    )
    bench.add_argument(
        "--max-tokens", type=number(2, 100_000), default=ANSWER_TOKENS, metavar="N", help="of an answer; default 128"
    )
    bench.add_argument("--model", default="", metavar="NAME", help="an adapter; default: the model itself")
    add_key(bench)
    add_output(bench)
    bench.set_defaults(run="bench.command:run")
