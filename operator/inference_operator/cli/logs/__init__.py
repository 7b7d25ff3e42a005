"""The options of `infd logs`."""

import argparse

from inference_operator.cli.options import add_connection, add_output
from inference_operator.cli.parser import examples

TAIL = 200


def add_arguments(logs: argparse.ArgumentParser) -> None:
    logs.description = (
        "Print the logs of the engines of an InferenceDeployment, or of its routers, merged by time. If an engine has"
        " ended with an error, the cause comes first. Requests of probes and scrapers, progress bars and repeats"
        " are left out, unless with -v. With -o json or yaml, `items` has each line with its time and container, and"
        " `causes` why engines have ended. It needs the right to get `pods/log`."
    )
    logs.epilog = examples("infd logs qwen -f", "infd logs qwen --previous", "infd logs qwen --router --tail 50")
    logs.add_argument("name", help="name of the InferenceDeployment")
    add_connection(logs)
    logs.add_argument("--router", action="store_true", help="the routers' logs, with the access log")
    logs.add_argument("-p", "--previous", action="store_true", help="of the last run of each container")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C, also with new pods")
    logs.add_argument(
        "--tail", type=int, default=TAIL, metavar="N", help=f"lines of each container; default {TAIL}, -1: all"
    )
    logs.add_argument("-v", "--verbose", action="store_true", help="leave nothing out")
    add_output(logs)
    logs.set_defaults(run="logs.command:run")
