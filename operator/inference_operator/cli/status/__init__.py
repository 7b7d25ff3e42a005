"""The options of the commands that show resources: `infd status` and `infd list`."""

import argparse

from inference_operator.cli.options import OF_RESOURCES, add_connection, add_output
from inference_operator.cli.parser import examples

WHY = (
    "explain it instead: what it waits for, with what to do; why requests wait in each ready engine, from its metrics;"
    " and for an autoscaled resource the requests now, the last decision, and the changes before it, from Events"
)


def add_status(status: argparse.ArgumentParser) -> None:
    status.description = (
        "Use it for one service; `infd list` shows all. "
        "Show one InferenceDeployment on one screen: what is wrong and what helps, its plan, its requests and times to"
        " the first byte as its routers count them since they started, engines, routers, adapters and Events. With"
        " --watch, readings 2 s apart give the rates of now. It needs the rights to get the resource, to list pods and"
        " Events, and for traffic to get `pods/proxy`. Exit status 1: it is not ready."
    )
    status.add_argument("name", help="name of the InferenceDeployment")
    status.epilog = examples("infd status qwen --watch", "infd status qwen --why")
    add_connection(status)
    shown = status.add_mutually_exclusive_group()
    shown.add_argument("-w", "--watch", action="store_true", help="show it live until Ctrl-C")
    shown.add_argument("--why", dest="run", action="store_const", const="status.why:run", help=WHY)
    add_output(status, "name")
    status.set_defaults(run="status.command:run")


def add_list(listed: argparse.ArgumentParser) -> None:
    listed.description = (
        "Use it for all services; `infd status` shows one. List InferenceDeployments: whether each is ready, its"
        " engines, the GPUs of one engine, and below the list what is wrong and what helps. With --traffic, the list"
        " has numbers: requests per second, and p50 and p95 of the time to the first byte of streams (TTFT50, TTFT95),"
        " as the routers measure them; requests that run and that wait; tokens per second and the use of the fullest"
        " KV cache, as the engines report them. Two readings, 2 s apart, give the rates; times to the first byte are"
        " bounds of a histogram. `-`: not reported; a line below the table says why. It needs the rights to get and"
        " list resources, and for traffic to list pods and Events, and to get `pods/proxy`."
    )
    listed.epilog = examples("infd list -A", "infd list --traffic --watch", "infd list qwen --traffic -o json")
    listed.add_argument("name", nargs="?", help="name of the InferenceDeployment; default: all of the namespace")
    add_connection(listed, all_namespaces="those of all namespaces")
    listed.add_argument("-l", "--selector", metavar="LABELS", help="those with these labels, such as team=search")
    numbers = "show the traffic in numbers"
    listed.add_argument("--traffic", dest="run", action="store_const", const="status.traffic:run", help=numbers)
    listed.add_argument("-w", "--watch", action="store_true", help="show it live until Ctrl-C")
    add_output(listed, *OF_RESOURCES)
    listed.set_defaults(run="status.listing:run")
