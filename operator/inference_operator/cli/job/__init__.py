"""The options of the commands that Jobs run: `infd inspect`, `download` and `prune`."""

import argparse
from pathlib import Path

from inference_operator.cli.options import add_output, number
from inference_operator.cli.parser import examples

TIME_LIMIT_SECONDS = 120
"""For the whole command: an index of 32 MiB at 1 MB/s takes 34 s; a slower hub cannot serve a model."""
MAX_SECONDS = 3600


def add_inspect(inspect: argparse.ArgumentParser) -> None:
    inspect.description = (
        "Use it to plan with a model that no hub or catalogue has: `infd plan --model FILE`. "
        "Read config.json, the weight index and the file sizes of a hub repository, bucket or directory. "
        "HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE work as in engines."
    )
    inspect.epilog = examples("infd inspect hf://Qwen/Qwen3-8B", "infd inspect ./model -o json > model.json")
    inspect.add_argument("source", help="hf://org/name, s3://bucket/path, or a directory")
    inspect.add_argument(
        "--revision", help="branch, tag or commit of the hub repository; digest of the bucket's listing"
    )
    inspect.add_argument("--allow-pickle", action="store_true", help="accept pickle files as weights")
    inspect.add_argument("--folder", type=Path, help="mount path of the volume of a pvc:// or oci:// source")
    whole, words = number(1, MAX_SECONDS), "time limit; default 120"
    inspect.add_argument("--time-limit", type=whole, default=TIME_LIMIT_SECONDS, metavar="SECONDS", help=words)
    inspect.add_argument("--to", type=Path, metavar="FILE", help="also write the result to this file, as JSON")
    add_output(inspect)
    inspect.set_defaults(run="job.inspect:run")


def add_download(download: argparse.ArgumentParser) -> None:
    download.description = (
        "Jobs run it; use `infd cache prefetch` in a cluster. "
        "Download a hub repository, or a folder of a bucket, to a folder with the layout of `spec.cache`."
        " It continues what an earlier command left, checks sizes and hashes, and marks the model as complete last."
        " HF_ENDPOINT and HF_TOKEN work as in engines; for a bucket AWS_ENDPOINT_URL, AWS_REGION,"
        " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. With --adapter the source is a LoRA adapter, and is checked."
    )
    download.add_argument("source", help="hf://org/name or s3://bucket/path; with --adapter also pvc:// and oci://")
    download.add_argument("--adapter", action="store_true", help="copy a LoRA adapter, and report what it is")
    download.add_argument(
        "--folder", type=Path, metavar="DIR", help="where the files of a pvc:// or oci:// adapter are"
    )
    download.add_argument("--revision", help="branch, tag, commit or digest of a listing; default: the newest")
    download.add_argument("--draft", metavar="SOURCE", help="hf://org/name of a second model that the engine loads")
    download.add_argument("--draft-revision", metavar="REVISION", help="branch, tag or commit of it")
    download.add_argument("--allow-pickle", action="store_true", help="accept pickle files as weights")
    download.add_argument("--cache", type=Path, required=True, metavar="DIR", help="mount path of the claim")
    download.add_argument(
        "--kernels", action="append", default=[], metavar="NAME", help="folder of compiled kernels to create"
    )
    download.add_argument("--empty-kernels", action="store_true", help="delete what is in that folder first")
    download.add_argument("--to", type=Path, metavar="FILE", help="also write the result to this file, as JSON")
    download.set_defaults(run="job.download:run")


def add_prune(prune: argparse.ArgumentParser) -> None:
    prune.description = (
        "Delete models and compiled kernels in a folder with the layout of `spec.cache`, except those that"
        " --keep and --keep-kernels name, and those that a Job used less than 10 minutes ago. It holds the locks of"
        " the downloads."
    )
    prune.add_argument("--cache", type=Path, required=True, metavar="DIR", help="mount path of the claim")
    words = "a model in use, and who uses it; without a commit, all its commits; repeatable"
    prune.add_argument("--keep", action="append", default=[], metavar="MODEL[@COMMIT][=WHO]", help=words)
    words = "folder of kernels in use; repeatable"
    prune.add_argument("--keep-kernels", action="append", default=[], metavar="NAME", help=words)
    prune.add_argument("--adapters", action="store_true", help="also delete LoRA adapters; without it, all stay")
    words = "an adapter in use, without `hf://`, and who uses it; repeatable"
    prune.add_argument("--keep-adapter", action="append", default=[], metavar="SOURCE[=WHO]", help=words)
    prune.add_argument("--dry-run", action="store_true", help="delete nothing, and print the same")
    prune.add_argument("--to", type=Path, metavar="FILE", help="also write the sum to this file, as JSON")
    prune.set_defaults(run="job.download:run_prune")
