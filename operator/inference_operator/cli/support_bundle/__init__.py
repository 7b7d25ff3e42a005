"""The options of `infd support-bundle`."""

import argparse
from pathlib import Path

from inference_operator.cli.options import add_connection, add_output
from inference_operator.cli.parser import examples


def add_arguments(bundle: argparse.ArgumentParser) -> None:
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
    add_output(bundle)
    bundle.set_defaults(run="support_bundle.command:run")
