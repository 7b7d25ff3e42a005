"""`infd bench`: loads one service step by step until its latency objective is broken."""

import argparse
import asyncio
import json
import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from inference_operator.api.resource import Resource, resource
from inference_operator.cli.chat import cannot_answer
from inference_operator.cli.connection import add_connection
from inference_operator.cli.explain import read_resource
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, RefusedError, UsageError, examples
from inference_operator.cli.question import is_agreed
from inference_operator.cli.service_key import add_key, service_key
from inference_operator.engines.registry import EngineRegistry
from inference_operator.manifest import Manifest

if TYPE_CHECKING:
    from inference_operator.cli.bench_levels import BenchReport
    from inference_operator.cli.bench_load import BenchLoad
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster

MAX_CONCURRENCY, MOST_CONCURRENCY = 64, 512
"""Default and limit of --max-concurrency: each request is a connection through the API server."""
LEVEL_SECONDS = 20
PROMPT_TOKENS, ANSWER_TOKENS = 256, 128
EXAMPLES = examples(
    "infd bench qwen",
    "infd bench qwen --yes --max-concurrency 16 --seconds 30 -o json",
    "infd bench qwen --prompt-tokens 2000 --max-tokens 50 --key-from my-key/key",
)


def add_arguments(bench: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd bench`."""
    bench.description = (
        "Load one InferenceDeployment that serves, with 1, 2, 4 and more requests at once, and measure the time to the"
        " first token (TTFT), the time between pieces of answers (ITL) and the throughput, until"
        " `autoscaling.objective` is broken, a request fails, or --max-concurrency is reached. Users of the service get"
        " slower answers meanwhile, and an autoscaler may add engines; so it asks first. Requests go through the API"
        " server, as with `infd chat`, and need the same rights; times include that way. Exit status 1: the"
        " first level already breaks the objective, or the service refuses."
    )
    bench.epilog = EXAMPLES
    bench.add_argument("name", help="name of the InferenceDeployment")
    add_connection(bench)
    bench.add_argument("-y", "--yes", action="store_true", help="load the service without asking")
    bench.add_argument(
        "--max-concurrency",
        type=_number(1, MOST_CONCURRENCY),
        default=MAX_CONCURRENCY,
        metavar="N",
        help=f"most requests at once, up to {MOST_CONCURRENCY}; default {MAX_CONCURRENCY}",
    )
    bench.add_argument(
        "--seconds", type=_number(1, 3600), default=LEVEL_SECONDS, metavar="N", help="of each level; default 20"
    )
    bench.add_argument(
        "--prompt-tokens", type=_number(1, 100_000), default=PROMPT_TOKENS, metavar="N", help="about; default 256"
    )
    bench.add_argument(
        "--max-tokens", type=_number(2, 100_000), default=ANSWER_TOKENS, metavar="N", help="of an answer; default 128"
    )
    bench.add_argument("--model", default="", metavar="NAME", help="an adapter; default: the model itself")
    add_key(bench)
    bench.add_argument("-o", "--output", choices=["table", "json"], default="table", help="default table")
    bench.set_defaults(run=_run)


def _number(least: int, most: int) -> "type[int]":
    """A parser of numbers within limits, for argparse."""

    def parsed(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
            raise argparse.ArgumentTypeError(f"must be a number from {least} to {most:,}")
        return int(text)

    return parsed  # type: ignore[return-value] # argparse takes any callable


def _run(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Ask, load, and print what was measured."""
    if not options.yes and not sys.stdin.isatty():
        raise UsageError("It loads a live service. Add --yes, because there is no terminal to ask at.")

    async def work(api: "Api", cluster: "KubeCluster", live: Manifest) -> int:
        found = resource(live)
        if problem := cannot_answer(found) or _nobody_serves(found):
            raise RefusedError(problem)
        if not options.yes and not await _agreed(found):
            raise RefusedError("Nothing was sent.")
        return await _measure(api, cluster, found, options)

    try:
        return asyncio.run(read_resource(options, options.name, work))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _nobody_serves(found: Resource) -> str:
    name = found.key.name
    return "" if found.status.ready_replicas else f"{name} has no ready engine. `infd status {name}` shows the cause."


async def _agreed(found: Resource) -> bool:
    """Whether the person at the terminal agrees to load a live service."""
    name = f"{found.key.namespace}/{found.key.name}"
    engines = f"{found.status.ready_replicas:,} engine{'s' * (found.status.ready_replicas != 1)}"
    return await is_agreed(
        f"This loads {name} ({engines}) until its objective is broken. Its users get slower answers.\nGo on?"
    )


async def _measure(api: "Api", cluster: "KubeCluster", found: Resource, options: argparse.Namespace) -> int:
    from inference_operator.cli.answer_stream import (  # noqa: PLC0415 - aiohttp takes half a second
        AnswerBrokenError,
        AnswerRefusedError,
    )
    from inference_operator.cli.bench_load import BenchLoad  # noqa: PLC0415 - as above
    from inference_operator.cli.service_client import ServiceClient, refusal_words, served_model  # noqa: PLC0415

    key = await service_key(cluster, found, options.key_from)
    model = options.model or served_model(found)
    async with ServiceClient(api, cluster, found, key, keeps_connections=True) as client:
        load = BenchLoad(
            client,
            model,
            prompt_tokens=options.prompt_tokens,
            max_tokens=options.max_tokens,
            seconds=options.seconds,
        )
        try:
            await load.warm_up()
        except AnswerRefusedError as error:
            raise RefusedError(refusal_words(error, found, model)) from error
        except (AnswerBrokenError, TimeoutError) as error:  # no answer at all
            name = found.key.name
            raise RefusedError(f"{name} did not answer the first request. `infd status {name}` shows more.") from error
        return await _rise(load, found, options)


async def _rise(load: "BenchLoad", found: Resource, options: argparse.Namespace) -> int:
    """Raise the load, and print each level when it ends."""
    from inference_operator.cli.bench_levels import BenchReport, at_once, goal_of  # noqa: PLC0415 - as above
    from inference_operator.cli.bench_screen import row, titles  # noqa: PLC0415 - as above

    goal, levels = goal_of(found), []
    as_table = options.output == "table"
    if as_table:
        print(titles(), flush=True)
    async for level in load.levels(goal, options.max_concurrency):
        levels.append(level)
        if as_table:
            print(row(level), flush=True)
    broken = levels[-1].broken(goal)
    stopped = f"with {at_once(levels[-1].concurrency)}, {broken}" if broken else "--max-concurrency is reached"
    report = BenchReport(
        found.key.namespace, found.key.name, goal, options.prompt_tokens, options.max_tokens, tuple(levels), stopped
    )
    _print(report, as_json=not as_table)
    return 0 if report.best else EXIT_REFUSED


def _print(report: "BenchReport", *, as_json: bool) -> None:
    from inference_operator.cli.bench_screen import plot, verdict  # noqa: PLC0415 - as above

    if as_json:
        best = report.best
        print(json.dumps({**asdict(report), "best_concurrency": best.concurrency if best else None}, indent=2))
        return
    if sys.stdout.isatty() and (text := plot(report, shutil.get_terminal_size().columns)):
        print(f"\n{text}")
    print()
    for line in verdict(report):
        print(line)
