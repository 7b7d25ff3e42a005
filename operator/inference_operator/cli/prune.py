"""`infd prune`: deletes unused models and compiled kernels on a claim. The Jobs of `infd cache prune` run it."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from inference_operator.model_files.pruning import report_text
from inference_operator.model_files.uses import Uses, parsed_adapter_use, parsed_use


def add_arguments(prune: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd prune`."""
    prune.description = (
        "Delete models and compiled kernels in a folder with the layout of `spec.cache`, except those that"
        " --keep and --keep-kernels name, and those that a Job used less than 10 minutes ago. It holds the locks of"
        " the downloads."
    )
    prune.add_argument("--cache", type=Path, required=True, metavar="DIR", help="mount path of the claim")
    prune.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="MODEL[@COMMIT][=WHO]",
        help="a model in use, and who uses it; without a commit, all its commits; repeatable",
    )
    prune.add_argument(
        "--keep-kernels", action="append", default=[], metavar="NAME", help="folder of kernels in use; repeatable"
    )
    prune.add_argument("--adapters", action="store_true", help="also delete LoRA adapters; without it, all stay")
    prune.add_argument(
        "--keep-adapter",
        action="append",
        default=[],
        metavar="SOURCE[=WHO]",
        help="an adapter in use, without `hf://`, and who uses it; repeatable",
    )
    prune.add_argument("--dry-run", action="store_true", help="delete nothing, and print the same")
    prune.add_argument("--to", type=Path, metavar="FILE", help="also write the sum to this file, as JSON")
    prune.set_defaults(run=_run)


def _run(options: argparse.Namespace, _: object) -> int:
    from inference_operator.model_files.prune import prune  # noqa: PLC0415 - it imports the hub's client: half a second

    adapters = tuple(parsed_adapter_use(text) for text in options.keep_adapter) if options.adapters else None
    uses = Uses(tuple(parsed_use(text) for text in options.keep), frozenset(options.keep_kernels), adapters)
    report = prune(options.cache, uses, now=time.time(), dry_run=options.dry_run)
    if options.to:
        options.to.write_text(report_text(replace(report, items=())), encoding="utf-8")
    print(report_text(report))
    return 0
