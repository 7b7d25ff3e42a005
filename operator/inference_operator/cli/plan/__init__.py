"""The options of `infd plan` and `infd render`."""

import argparse

from inference_operator.cli.options import add_cluster, add_form, add_output, add_source
from inference_operator.cli.parser import examples


def add_arguments(plan: argparse.ArgumentParser) -> None:
    plan.description = (
        "Use it before `kubectl apply`. "
        "Size new resources as the operator does: for the GPUs of --gpu, or for the nodes of the cluster"
        " of the current kubeconfig. With --diff, show what the operator would write in the cluster after an apply of"
        " the files: which objects change, which engines and routers restart and how, GPUs, time, and what becomes of"
        " requests. Nothing is written. It needs the rights to get and patch InferenceDeployments, and to list their"
        " children and pods. Without those to read nodes and the operator's Deployment, it says what it assumes."
    )
    plan.epilog = examples("infd plan -f qwen.yaml --gpu L4:4", "infd plan -f qwen.yaml --diff")
    add_source(plan)
    where = plan.add_mutually_exclusive_group()
    where.add_argument("--cluster", action="store_true", help="use the nodes of the cluster of the kubeconfig")
    where.add_argument("--diff", action="store_true", help="show what would change in the cluster of the kubeconfig")
    words = "with --diff: namespace of resources whose file names none; default: that of the context"
    plan.add_argument("-n", "--namespace", dest="in_namespace", metavar="NAME", help=words)
    add_cluster(plan)
    add_output(plan)
    words = "show the source of the model, the runner-up, and the memory of one GPU"
    plan.add_argument("-v", "--verbose", action="store_true", help=words)
    plan.set_defaults(run="plan.command:run")


def add_render(render: argparse.ArgumentParser) -> None:
    render.description = (
        "Use it to read or keep the objects themselves; `infd plan` shows their sizes. "
        "Print the objects that the operator would create, for the GPUs of --gpu. Rejected"
        " resources are reported on standard error; the others are still printed."
    )
    render.epilog = examples("infd render -f qwen.yaml --gpu L4:4", "infd render -f qwen.yaml --gpu L4:4 -o json")
    add_source(render)
    add_form(render, "format of the objects")
    render.set_defaults(run="plan.command:render")
