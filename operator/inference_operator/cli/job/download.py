"""`infd download` and `infd prune`: what Jobs of the operator and of `infd cache` do on the claim of `spec.cache`."""

import argparse
import sys
import time
from dataclasses import replace

from inference_operator.api.refusal import Refusal
from inference_operator.cli.parser import UsageError
from inference_operator.jobs.download_result import Downloaded, StoredAdapter, adapter_text, downloaded_text
from inference_operator.jobs.inspection_result import result_text
from inference_operator.jobs.result import Failure
from inference_operator.model_files.adapter import FolderOrigin, store_adapter
from inference_operator.model_files.download import ModelOrigin, download
from inference_operator.model_files.kernels import Kernels
from inference_operator.model_files.prune import prune
from inference_operator.model_files.pruning import report_text
from inference_operator.model_files.uses import Uses, parsed_adapter_use, parsed_use
from inference_operator.models.adapter import FILES
from inference_operator.models.checkpoint import gguf_parts
from inference_operator.models.source import DOWNLOADED, BucketModel, HubModel, model_source, stored_name


def run(options: argparse.Namespace) -> int:
    result, text = _adapter(options) if options.adapter else _model(options)
    if options.to:
        options.to.write_text(text, encoding="utf-8")
    if isinstance(result, Failure):
        print(result.message, file=sys.stderr)
        return 1
    print(text)
    return 0


def _model(options: argparse.Namespace) -> tuple[Downloaded | Failure, str]:
    source = model_source(options.source)
    if not isinstance(source, DOWNLOADED):
        raise UsageError(f"{options.source}: only `hf://org/name` and `s3://bucket/path` can be downloaded.")
    kernels = [Kernels(key, empty_first=options.empty_kernels) for key in options.kernels if key]
    origin = _origin(source, allow_pickle=options.allow_pickle)
    pickle, only = options.allow_pickle, gguf_parts(source.file)
    result = download(
        origin, options.revision, options.cache, kernels=kernels, say=_say, allow_pickle=pickle, only=only
    )
    if options.draft and not isinstance(result, Failure):
        second = _draft(options)
        result = second if isinstance(second, Failure) else result
    return result, result_text(result) if isinstance(result, Failure) else downloaded_text(result)


def _draft(options: argparse.Namespace) -> Downloaded | Failure:
    """Download the second model beside the first. It never has pickle files: engines read none of a draft."""
    source = model_source(options.draft)
    if not isinstance(source, HubModel) or source.file:
        raise UsageError(f"{options.draft}: a draft is a repository of the hub: `hf://org/name`.")
    return download(_origin(source, allow_pickle=False), options.draft_revision, options.cache, say=_say)


def _adapter(options: argparse.Namespace) -> tuple[StoredAdapter | Failure, str]:
    source = model_source(options.source)
    if isinstance(source, Refusal):
        raise UsageError(source.message)
    if isinstance(source, DOWNLOADED):
        origin = _origin(source, allow_pickle=options.allow_pickle)
    elif options.folder:
        origin = FolderOrigin(stored_name(source), options.folder, FILES)
    else:
        raise UsageError(f"{options.source}: name the folder of its files with `--folder`.")
    result = store_adapter(origin, options.revision, options.cache, say=_say, allow_pickle=options.allow_pickle)
    return result, result_text(result) if isinstance(result, Failure) else adapter_text(result)


def _origin(source: HubModel | BucketModel, *, allow_pickle: bool) -> ModelOrigin:
    if isinstance(source, HubModel):
        from inference_operator.model_files.hub_download import HubOrigin  # noqa: PLC0415 - half a second, and 60 MiB

        return HubOrigin(source.repository)
    from inference_operator.model_files.bucket_download import BucketOrigin  # noqa: PLC0415 - 20 MiB

    return BucketOrigin(source, _say, allow_pickle=allow_pickle)


def _say(line: str) -> None:
    print(line, flush=True)


def run_prune(options: argparse.Namespace) -> int:
    adapters = tuple(parsed_adapter_use(text) for text in options.keep_adapter) if options.adapters else None
    uses = Uses(tuple(parsed_use(text) for text in options.keep), frozenset(options.keep_kernels), adapters)
    report = prune(options.cache, uses, now=time.time(), dry_run=options.dry_run)
    if options.to:
        options.to.write_text(report_text(replace(report, items=())), encoding="utf-8")
    print(report_text(report))
    return 0
