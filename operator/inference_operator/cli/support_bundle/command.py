"""The command `infd support-bundle`, which lists what it will write before it writes one archive."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from inference_operator.cli.cluster_command import ClusterCommand, is_agreed, live_of
from inference_operator.cli.output import table
from inference_operator.cli.parser import RefusedError, UsageError
from inference_operator.cli.support_bundle.contents import BundleFile, BundleReader, packed, write
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster

SUFFIX = ".tar.gz"


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    """List the members, and write them; returns 1 if the answer is no."""
    may_ask = sys.stdin.isatty() and sys.stdout.isatty()
    if not (options.yes or options.dry_run or may_ask):
        raise UsageError("Without a terminal, add --yes to write, or --dry-run to see the list.")

    async def read(api: Api, cluster: KubeCluster) -> Sequence[BundleFile]:
        if options.name:
            await live_of(cluster, options.namespace, options.name)
        return await BundleReader(api, cluster, options.namespace, options.name, engines).members()

    members = ClusterCommand(options).run(read)
    stem = f"infd-support-{options.namespace}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path = options.file or Path(f"{stem}{SUFFIX}")
    _print_list(members, options.output)
    if options.dry_run:
        return 0
    if not options.yes and not asyncio.run(is_agreed(f"Write {path}?")):
        raise RefusedError("Nothing was written.")
    write(path, packed(members, stem))
    print(f"{path}: {len(members)} files. Look through it before you send it.", file=sys.stderr)
    return 0


def _print_list(members: Sequence[BundleFile], form: str) -> None:
    if form == "json":
        print(json.dumps([{"path": one.path, "bytes": one.size} for one in members], indent=2))
        return
    print("\n".join(table([("FILE", "", "BYTES"), *((one.path, "", f"{one.size:,}") for one in members)])))
