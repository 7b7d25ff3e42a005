"""The options of the commands that show resources: `infd status`, `list`, `explain` and `top`."""

import argparse

from inference_operator.cli.options import add_connection, add_table_or_json
from inference_operator.cli.parser import examples


def add_status(status: argparse.ArgumentParser) -> None:
    status.description = (
        "Show one InferenceDeployment on one screen: what is wrong and what helps, its plan, its requests and times to"
        " the first byte as its routers count them since they started, engines, routers, adapters and Events. With"
        " --watch, readings 2 s apart give the rates of now. It needs the rights to get the resource, to list pods and"
        " Events, and for traffic to get `pods/proxy`. Exit status 1: it is not ready."
    )
    status.add_argument("name", help="name of the InferenceDeployment")
    add_connection(status)
    status.add_argument("-w", "--watch", action="store_true", help="show it live until Ctrl-C")
    add_table_or_json(status)
    status.set_defaults(run="status.command:run")


def add_list(listed: argparse.ArgumentParser) -> None:
    listed.description = (
        "List InferenceDeployments: whether each is ready, its engines, the GPUs of one engine, and below the list what"
        " is wrong and what helps."
    )
    add_connection(listed, all_namespaces="those of all namespaces")
    add_table_or_json(listed)
    listed.set_defaults(run="status.listing:list_resources")


def add_explain(explain: argparse.ArgumentParser) -> None:
    explain.description = (
        "Explain an InferenceDeployment in the cluster of the current kubeconfig: what it waits for, with"
        " what to do; and for each ready engine, from its metrics, why requests wait. Reading metrics needs the right"
        " to get `pods/proxy`. `infd explain autoscaling NAME` explains the number of engines: the requests now, the"
        " last decision, and the changes before it, from Events."
    )
    explain.add_argument("name", nargs="+", help="name of the InferenceDeployment; or `autoscaling` and its name")
    add_connection(explain)
    explain.set_defaults(run="status.explain:run")


def add_top(top: argparse.ArgumentParser) -> None:
    top.description = (
        "Show the traffic of InferenceDeployments in numbers: requests per second, and p50 and p95 of the time to the"
        " first byte of streams (TTFT50, TTFT95), as the routers measure them; requests that run and that wait; tokens"
        " per second and the use of the fullest KV cache, as the engines tell. Two readings, 2 s apart, give the rates;"
        " times to the first byte are bounds of a histogram. `-`: not reported; a line below the table says why. It"
        " needs the rights to get and list resources, to list pods and Events, and to get `pods/proxy`."
    )
    top.epilog = examples("infd top", "infd top qwen --watch", "infd top -A -o json")
    top.add_argument("name", nargs="?", help="name of the InferenceDeployment; default: all of the namespace")
    add_connection(top, all_namespaces="those of all namespaces")
    top.add_argument("-w", "--watch", action="store_true", help="show them live until Ctrl-C")
    add_table_or_json(top)
    top.set_defaults(run="status.top:run")
