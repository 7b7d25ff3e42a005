"""`infd download`: downloads a model to the claim of `spec.cache`. The operator's Jobs run it."""

import argparse
import sys
from pathlib import Path

from inference_operator.cli.parser import UsageError
from inference_operator.engines.registry import EngineRegistry
from inference_operator.jobs.download_result import downloaded_text
from inference_operator.jobs.inspection_result import result_text
from inference_operator.jobs.result import Failure
from inference_operator.model_files.download import ModelOrigin, download
from inference_operator.model_files.kernels import Kernels
from inference_operator.models.source import DOWNLOADED, BucketModel, HubModel, model_source


def add_arguments(download: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd download`."""
    download.description = (
        "Download a hub repository, or a folder of a bucket, to a folder with the layout of `spec.cache`."
        " It continues what an earlier command left, checks sizes and hashes, and marks the model as complete last."
        " HF_ENDPOINT and HF_TOKEN work as in engines; for a bucket AWS_ENDPOINT_URL, AWS_REGION,"
        " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
    )
    download.add_argument("source", help="hf://org/name or s3://bucket/path")
    download.add_argument("--revision", help="branch, tag, commit or digest of a listing; default: the newest")
    download.add_argument("--allow-pickle", action="store_true", help="accept pickle files as weights")
    download.add_argument("--cache", type=Path, required=True, metavar="DIR", help="mount path of the claim")
    download.add_argument("--kernels", default="", metavar="NAME", help="folder of compiled kernels to create")
    download.add_argument("--empty-kernels", action="store_true", help="delete what is in that folder first")
    download.add_argument("--to", type=Path, metavar="FILE", help="also write the result to this file, as JSON")
    download.set_defaults(run=_run)


def _run(options: argparse.Namespace, _: EngineRegistry) -> int:
    source = model_source(options.source)
    if not isinstance(source, DOWNLOADED):
        raise UsageError(f"{options.source}: only `hf://org/name` and `s3://bucket/path` can be downloaded.")
    kernels = Kernels(options.kernels, empty_first=options.empty_kernels) if options.kernels else None
    origin = _origin(source, allow_pickle=options.allow_pickle)
    result = download(
        origin, options.revision, options.cache, kernels=kernels, say=_say, allow_pickle=options.allow_pickle
    )
    text = result_text(result) if isinstance(result, Failure) else downloaded_text(result)
    if options.to:
        options.to.write_text(text, encoding="utf-8")
    print(
        result.message if isinstance(result, Failure) else text,
        file=sys.stderr if isinstance(result, Failure) else sys.stdout,
    )
    return 1 if isinstance(result, Failure) else 0


def _origin(source: HubModel | BucketModel, *, allow_pickle: bool) -> ModelOrigin:
    if isinstance(source, HubModel):
        from inference_operator.model_files.hub_download import HubOrigin  # noqa: PLC0415 - half a second, and 60 MiB

        return HubOrigin(source.repository)
    from inference_operator.model_files.bucket_download import BucketOrigin  # noqa: PLC0415 - 20 MiB

    return BucketOrigin(source, _say, allow_pickle=allow_pickle)


def _say(line: str) -> None:
    print(line, flush=True)
