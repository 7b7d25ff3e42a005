"""`infd bench`: loads one service step by step until its latency objective is broken."""

import argparse
import json
import shutil
import sys
from dataclasses import asdict

from inference_operator.api.resource import Resource, resource
from inference_operator.cli.answer_stream import AnswerBrokenError, AnswerRefusedError
from inference_operator.cli.bench_levels import BenchReport, at_once, goal_of
from inference_operator.cli.bench_load import BenchLoad
from inference_operator.cli.bench_screen import plot, row, titles, verdict
from inference_operator.cli.chat.command import cannot_answer
from inference_operator.cli.cluster_command import ClusterCommand, is_agreed
from inference_operator.cli.parser import EXIT_REFUSED, RefusedError, UsageError
from inference_operator.cli.service_client import ServiceClient, refusal_words, served_model
from inference_operator.cli.service_key import service_key
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest


def run(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Ask, load, and print what was measured."""
    if not options.yes and not sys.stdin.isatty():
        raise UsageError("It loads a live service. Add --yes, because there is no terminal to ask at.")

    async def work(api: Api, cluster: KubeCluster, live: Manifest) -> int:
        found = resource(live)
        if problem := cannot_answer(found) or _nobody_serves(found):
            raise RefusedError(problem)
        if not options.yes and not await _agreed(found):
            raise RefusedError("Nothing was sent.")
        return await _measure(api, cluster, found, options)

    return ClusterCommand(options).run_for(options.name, work)


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


async def _measure(api: Api, cluster: KubeCluster, found: Resource, options: argparse.Namespace) -> int:
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


async def _rise(load: BenchLoad, found: Resource, options: argparse.Namespace) -> int:
    """Raise the load, and print each level when it ends."""
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


def _print(report: BenchReport, *, as_json: bool) -> None:
    if as_json:
        best = report.best
        print(json.dumps({**asdict(report), "best_concurrency": best.concurrency if best else None}, indent=2))
        return
    if sys.stdout.isatty() and (text := plot(report, shutil.get_terminal_size().columns)):
        print(f"\n{text}")
    print()
    for line in verdict(report):
        print(line)
