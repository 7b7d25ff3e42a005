"""The options of `infd bench`."""

import argparse

from inference_operator.cli.options import add_connection, add_key, add_output, number
from inference_operator.cli.parser import examples

NUMBERS = (
    ("--max-concurrency", 64, number(1, 512), "most requests at once, up to 512; default 64"),
    ("--seconds", 20, number(1, 3600), "of each level; default 20"),
    ("--prompt-tokens", 256, number(1, 100_000), "about; default 256"),
    ("--max-tokens", 128, number(2, 100_000), "of an answer; default 128"),
)
"""Options with their defaults. Each request is a connection through the API server, so they are few at once."""


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
    for option, default, kind, words in NUMBERS:
        bench.add_argument(option, type=kind, default=default, metavar="N", help=words)
    bench.add_argument("--model", default="", metavar="NAME", help="an adapter; default: the model itself")
    add_key(bench)
    add_output(bench)
    bench.set_defaults(run="bench.command:run")
