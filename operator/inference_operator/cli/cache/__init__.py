"""The options of `infd cache list`, `prefetch` and `prune`."""

import argparse
from argparse import _SubParsersAction

from inference_operator.cli.options import TOKEN_SECRET, add_connection, add_output
from inference_operator.cli.parser import examples


def add_arguments(cache: argparse.ArgumentParser) -> None:
    cache.description = "List, fill and prune the claims of `spec.cache` in the cluster of the current kubeconfig."
    made = cache.add_subparsers(required=True, metavar="COMMAND")
    _add_list(made)
    _add_prefetch(made)
    _add_prune(made)


def _add_list(made: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    command = made.add_parser(
        "list",
        help="list the models on claims",
        description="List the models on claims with size, state and the resources that use them, from ConfigMaps, Jobs"
        " and resources. It reads no claim: `infd cache prune --dry-run` shows also what nobody recorded, and compiled"
        " kernels.",
    )
    add_connection(command, all_namespaces="the claims of all namespaces")
    add_output(command)
    command.epilog = examples("infd cache list -A", "infd cache list -o json")
    command.set_defaults(run="cache.command:list_models")


def _add_prefetch(made: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    command = made.add_parser(
        "prefetch",
        help="download a model to a claim",
        description="Download a model to a claim before any resource uses it: create the Job that the operator would"
        " create, and show its progress. Resources find the model there. If this command ends early, the Job goes on;"
        " the same command follows it again.",
    )
    command.add_argument("source", help="hf://org/name or s3://bucket/path")
    command.add_argument("--revision", help="branch, tag or commit; default: the default branch")
    command.add_argument("--allow-pickle", action="store_true", help="as `spec.model.allowPickle`; needs a commit")
    _add_claim(command)
    variable = "variable of the Job, as HF_ENDPOINT; repeatable"
    command.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help=variable)
    command.add_argument("--token-secret", default="", metavar="NAME[/KEY]", help=TOKEN_SECRET)
    command.add_argument(
        "--s3-secret", metavar="NAME", help="Secret with the key of a bucket, as `model.s3.credentialsSecretRef`"
    )
    command.epilog = examples(
        "infd cache prefetch hf://Qwen/Qwen3-8B --claim models",
        "infd cache prefetch hf://meta-llama/Llama-3.1-8B-Instruct --claim models --token-secret hf-token",
    )
    add_output(command)
    command.set_defaults(run="cache.command:prefetch")


def _add_prune(made: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    command = made.add_parser(
        "prune",
        help="delete what no resource uses from a claim",
        description="Delete the models and compiled kernels on a claim that no object of its namespace uses, with a Job"
        " that holds the locks of the downloads. Objects are InferenceDeployments, and Deployments, Jobs and pods that"
        " mount the claim. What a Job used less than 10 minutes ago is kept.",
    )
    _add_claim(command)
    command.add_argument("--dry-run", action="store_true", help="delete nothing, and show what would be deleted")
    add_output(command)
    command.epilog = examples("infd cache prune --claim models --dry-run", "infd cache prune --claim models")
    command.set_defaults(run="cache.command:prune")


def _add_claim(command: argparse.ArgumentParser) -> None:
    command.add_argument("--claim", required=True, metavar="NAME", help="the PersistentVolumeClaim")
    add_connection(command)
    command.add_argument("--image", help="image of the Job; default: the operator's of this release")
