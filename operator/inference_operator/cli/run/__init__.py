"""The options of `infd run`."""

import argparse

from inference_operator.api.engine_kind import EngineKind
from inference_operator.cli.options import TOKEN_SECRET, add_connection, add_form, add_timeout
from inference_operator.cli.parser import examples

TIMEOUT_SECONDS = 3600
"""Default of --timeout: 500 GB of weights at 150 MB/s."""


def add_arguments(run: argparse.ArgumentParser) -> None:
    run.description = (
        "Create an InferenceDeployment with nothing but what is named here, show its progress until it serves, and"
        " print how to ask it. If it ends again and again for a cause that stays, print the cause and what helps, and"
        " return 1. With --dry-run, print the manifest for `kubectl apply` or Git, and ask no cluster."
    )
    run.epilog = examples(
        "infd run qwen Qwen/Qwen3-8B",
        "infd run tiny Qwen/Qwen3-0.6B --cpu",
        "infd run llama meta-llama/Llama-3.1-8B-Instruct --token-secret hf-token --autoscale 0..4",
        "infd run qwen Qwen/Qwen3-8B --dry-run > qwen.yaml",
    )
    run.add_argument("name", help="name of the InferenceDeployment, and of the model in requests")
    run.add_argument("source", help="org/name or hf://org/name, s3://bucket/path, pvc://claim/path or oci://image")
    add_connection(run)
    device = run.add_mutually_exclusive_group()
    device.add_argument("--gpu", default="", metavar="KIND,...", help="kinds of GPUs to choose from, such as L4,A10G")
    device.add_argument("--cpu", action="store_true", help="serve on CPUs")
    kinds = [str(kind) for kind in EngineKind]
    run.add_argument("--engine", choices=kinds, default="", help="kind of the engine; default: the operator chooses")
    engines = run.add_mutually_exclusive_group()
    engines.add_argument("--replicas", type=int, metavar="N", help="number of engines; default 1")
    engines.add_argument("--autoscale", default="", metavar="MIN..MAX", help="engines by the requests, such as 0..4")
    run.add_argument("--token-secret", default="", metavar="NAME[/KEY]", help=TOKEN_SECRET)
    run.add_argument("--gateway", default="", metavar="NAME", help="also create this ModelGateway if there is none")
    run.add_argument("--dry-run", action="store_true", help="print the manifest and create nothing")
    run.add_argument("--no-wait", action="store_true", help="do not wait until it serves")
    add_timeout(run, TIMEOUT_SECONDS, "give up waiting")
    add_form(run, "format of --dry-run")
    run.set_defaults(run="run.command:run")
