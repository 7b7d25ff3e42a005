"""`infd doctor`: the checks in their order, and the two forms of output."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.doctor import installation, nodes, platform
from inference_operator.cli.doctor.facts import ClusterFacts, Finding, Health, operator_rights, own_rights
from inference_operator.cli.doctor.probe import probe_pod, probed
from inference_operator.cli.doctor.reading import ClusterReader
from inference_operator.cli.output import dumped
from inference_operator.cli.parser import EXIT_REFUSED, UsageError
from inference_operator.cli.status.screen import BAD, DIM, GOOD, show
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.kube.cluster import KubeCluster

SYMBOLS = {Health.GOOD: "✔", Health.NOTE: "!", Health.BAD: "✖", Health.UNKNOWN: ""}
WORDS = {Health.GOOD: "ok", Health.NOTE: "note", Health.BAD: "BAD", Health.UNKNOWN: "?"}
STYLES = {Health.GOOD: GOOD, Health.NOTE: "yellow", Health.BAD: BAD, Health.UNKNOWN: DIM}


def run(options: argparse.Namespace) -> int:
    if not options.hub.startswith(("http://", "https://")):
        raise UsageError("--hub: write a URL, such as `https://huggingface.co`.")

    async def read(cluster: KubeCluster) -> ClusterFacts:
        reader = ClusterReader(cluster, options.namespace)
        facts = await reader.facts(lambda seen: probe_pod(seen, options.hub))
        if not options.cluster:
            return facts
        print("A pod asks from inside the cluster. It is deleted at the end.", file=sys.stderr)
        return replace(facts, probe=await probed(cluster, probe_pod(facts, options.hub), options.timeout))

    cure = "Check that `kubectl version` works with the same kubeconfig."
    facts = ClusterCommand(options, cure=cure).run(read)
    found = list(findings(facts, options.engines or ENGINES))
    is_bad = any(one.health is Health.BAD for one in found)
    if options.output == "table":
        show(screen(found, with_symbols=sys.stdout.isatty()))
    else:
        print(dumped({"namespace": options.namespace, "healthy": not is_bad, "findings": found}, options.output))
    return EXIT_REFUSED if is_bad else 0


def screen(found: Sequence[Finding], *, with_symbols: bool) -> RenderableType:
    signs = {health: f"{SYMBOLS[health]} {word}".strip() for health, word in WORDS.items()} if with_symbols else WORDS
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in found:
        text = Text(one.message)
        if one.cure and one.health is not Health.GOOD:
            text.append(f"\n→ {one.cure}", style=DIM)
        table.add_row(Text(signs[one.health], style=STYLES[one.health]), Text(one.check), text)
    return Group(table, Padding(_summary(found), (1, 0, 0, 0)))


def _summary(found: Sequence[Finding]) -> Text:
    count = Counter(one.health for one in found)
    if count[Health.BAD]:
        wrong = "1 thing is" if count[Health.BAD] == 1 else f"{count[Health.BAD]} things are"
        return Text(f"{wrong} wrong, {count[Health.UNKNOWN]} could not be seen.", style=BAD)
    unknown = f" {count[Health.UNKNOWN]} could not be seen." if count[Health.UNKNOWN] else ""
    return Text(f"Nothing is wrong.{unknown}", style=GOOD)


def findings(facts: ClusterFacts, engines: EngineRegistry) -> Iterator[Finding]:
    yield from installation.kubernetes(facts)
    yield from installation.definition(facts)
    yield from installation.operator(facts)
    yield from installation.overlap(facts)
    yield from own_rights(facts)
    yield from operator_rights(facts)
    yield from nodes.gpus(facts)
    yield from nodes.driver(facts, engines)
    yield from nodes.runtime_class(facts)
    yield from platform.pod_security(facts)
    yield from platform.admission(facts)
    yield from nodes.probe(facts)
    yield from nodes.images(facts)
    yield from nodes.hub(facts)
    yield from platform.dns(facts)
    yield from platform.network_policies(facts)
    yield from platform.storage(facts)
    yield from platform.metrics(facts)
    yield from installation.leftovers(facts)
