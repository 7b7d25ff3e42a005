"""The options of `infd import`, which makes InferenceDeployments from resources of other projects."""

import argparse

from inference_operator.cli.options import add_connection, add_form
from inference_operator.cli.parser import examples


def add_arguments(imported: argparse.ArgumentParser) -> None:
    imported.description = (
        "Print an InferenceDeployment for a Model of KubeAI, a Deployment that runs `vllm serve`, or an"
        " LLMInferenceService of KServe, from a file or from the cluster. Standard error says, field by field, what"
        " could not be taken over. Nothing is changed. Exit status 1: one of them could not be taken over."
    )
    imported.epilog = examples(
        "infd import -f model.yaml", "infd import deployment/vllm -n demo | infd plan -f - --cluster"
    )
    imported.add_argument("object", nargs="?", help="KIND/NAME in the cluster: model, deployment, llminferenceservice")
    imported.add_argument("-f", "--filename", metavar="FILE", help="file, folder, or - for standard input")
    add_connection(imported)
    add_form(imported, "format of the manifests")
    imported.set_defaults(run="import_.command:run")
