"""`infd prune`: deletes unused models and compiled kernels on a claim. The Jobs of `infd cache prune` run it."""

import argparse
import time
from dataclasses import replace

from inference_operator.model_files.prune import prune
from inference_operator.model_files.pruning import report_text
from inference_operator.model_files.uses import Uses, parsed_adapter_use, parsed_use


def run(options: argparse.Namespace, _: object) -> int:
    adapters = tuple(parsed_adapter_use(text) for text in options.keep_adapter) if options.adapters else None
    uses = Uses(tuple(parsed_use(text) for text in options.keep), frozenset(options.keep_kernels), adapters)
    report = prune(options.cache, uses, now=time.time(), dry_run=options.dry_run)
    if options.to:
        options.to.write_text(report_text(replace(report, items=())), encoding="utf-8")
    print(report_text(report))
    return 0
