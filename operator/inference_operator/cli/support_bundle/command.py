"""The command `infd support-bundle`, which lists what it will write before it writes."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from inference_operator.cli.connection import add_connection, in_cluster
from inference_operator.cli.output import table
from inference_operator.cli.parser import EXIT_INTERRUPTED, RefusedError, UsageError, examples
from inference_operator.cli.question import is_agreed
from inference_operator.cli.support_bundle.archive import BundleFile, packed, write
from inference_operator.cli.support_bundle.contents import BundleReader
from inference_operator.engines.registry import EngineRegistry
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Ref

if TYPE_CHECKING:
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster

SUFFIX = ".tar.gz"


def add_arguments(bundle: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd support-bundle`."""
    bundle.description = (
        "Collect what others need to help you in one archive: resources with their statuses, child objects, Events, the"
        " last lines of logs, the operator's configuration, and the findings of `infd doctor`. Secrets are never read."
        " Values of variables, annotations of others, and what looks like a token or key are hidden. Logs may have"
        " prompts in them, if you let engines log requests. The list comes before the file. Without a terminal, --yes"
        " writes."
    )
    bundle.epilog = examples(
        "infd support-bundle qwen",
        "infd support-bundle --dry-run",
        "infd support-bundle -n team-a --yes --file bundle.tar.gz",
    )
    bundle.add_argument("name", nargs="?", default="", help="name of an InferenceDeployment; default: all")
    add_connection(bundle)
    bundle.add_argument("--file", type=Path, metavar="FILE", help="file to write; default: a new one in this folder")
    answer = bundle.add_mutually_exclusive_group()
    answer.add_argument("-y", "--yes", action="store_true", help="write without asking")
    answer.add_argument("--dry-run", action="store_true", help="list what would be written, and write nothing")
    bundle.add_argument("-o", "--output", choices=["table", "json"], default="table", help="form of the list")
    bundle.set_defaults(run=_run)


def _run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    """List the members, and write them; returns 1 if the answer is no."""
    may_ask = sys.stdin.isatty() and sys.stdout.isatty()
    if not (options.yes or options.dry_run or may_ask):
        raise UsageError("Without a terminal, add --yes to write, or --dry-run to see the list.")

    async def read(api: "Api", cluster: "KubeCluster") -> Sequence[BundleFile]:
        ref = Ref(INFERENCE_DEPLOYMENT, options.namespace, options.name)
        if options.name and await cluster.get(ref) is None:
            raise UsageError(f"There is no InferenceDeployment `{ref.name}` in the namespace `{ref.namespace}`.")
        return await BundleReader(api, cluster, options.namespace, options.name, engines).members()

    try:
        members = asyncio.run(in_cluster(read, options))
        stem = f"infd-support-{options.namespace}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        path = options.file or Path(f"{stem}{SUFFIX}")
        _print_list(members, options.output)
        if options.dry_run:
            return 0
        if not options.yes and not asyncio.run(is_agreed(f"Write {path}?")):
            raise RefusedError("Nothing was written.")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    write(path, packed(members, stem))
    print(f"{path}: {len(members)} files. Look through it before you send it.", file=sys.stderr)
    return 0


def _print_list(members: Sequence[BundleFile], form: str) -> None:
    if form == "json":
        print(json.dumps([{"path": one.path, "bytes": one.size} for one in members], indent=2))
        return
    print("\n".join(table([("FILE", "", "BYTES"), *((one.path, "", f"{one.size:,}") for one in members)])))
