"""The options of `infd drill`."""

import argparse

from inference_operator.cli.drill.promises import Fault
from inference_operator.cli.options import add_connection, add_key, add_output, amount, seconds
from inference_operator.cli.parser import examples

DRILLED = (
    Fault.ROLL_ENGINES,
    Fault.ROLL_ROUTERS,
    Fault.DELETE_ENGINE,
    Fault.DELETE_ROUTER,
    Fault.END_OPERATOR,
    Fault.DRAIN_NODE,
    Fault.SCALE_DOWN,
    Fault.TO_ZERO,
    Fault.ROLL_GATEWAY,
)
"""Faults that the command causes: planned ones of one service. A kill costs requests, as the table says, and proves
nothing more; what else there is belongs to the cluster, and is caused by `bench.availability`."""
SECONDS = 300
RATE = 2.0
"""Requests per second: the load is to show gaps, and not what the service carries."""
HEAL_SECONDS = 900
"""Default of --heal-timeout: an engine may load 100 GB of weights."""


def add_arguments(drill: argparse.ArgumentParser) -> None:
    drill.description = (
        "Prove that a service loses no request: send numbered requests, cause one fault after the other, wait until"
        " each has healed, and judge each answer by what docs/explanation/scope.md promises. It says first what it will"
        " do, and asks. It causes only what you have the right to cause. A service with one engine or router is"
        " interrupted only with --yes-interrupt. No node is cordoned, and `spec.replicas` stays: fewer engines are an"
        " annotation with a deadline, which the operator keeps also after this command was killed. In the cluster,"
        " requests go to the Service, otherwise through the API server to routers, as with `infd chat`; where a"
        " ModelGateway is before the model and `roll-gateway` among the faults, to that gateway. Exit status 1:"
        " more was lost than promised, a fault did not heal, or the drill was refused."
    )
    drill.epilog = examples(
        "infd drill qwen",
        "infd drill qwen --for 10m --faults roll-routers,delete-engine --rate 1",
        "infd drill qwen --yes -o json > drill.json; infd drill --judge drill.json",
    )
    which = drill.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", help="name of the InferenceDeployment")
    which.add_argument("--judge", metavar="FILE", help="judge the report of an earlier drill (-o json) again")
    add_connection(drill)
    _add_load(drill)
    drill.set_defaults(run="drill.command:run")


def _add_load(drill: argparse.ArgumentParser) -> None:
    words = "begin no fault after this time, and end when all have had their turn, such as 90s or 10m; default 5m"
    drill.add_argument("--for", dest="seconds", type=seconds, default=SECONDS, metavar="TIME", help=words)
    words = f"which; default: all you may cause, of {', '.join(DRILLED)}"
    drill.add_argument("--faults", type=_faults, metavar="FAULT,…", help=words)
    words = f"requests per second; default {RATE:g}, or half of what one engine carries if that is less"
    drill.add_argument("--rate", type=amount(100.0, is_positive=True), metavar="N", help=words)
    drill.add_argument("--seed", type=int, metavar="N", help="of the order of faults; default: random")
    drill.add_argument("-y", "--yes", action="store_true", help="begin without asking")
    words = "also faults that interrupt the service or let requests wait"
    drill.add_argument("--yes-interrupt", action="store_true", help=words)
    words = "of the service, where this machine can reach it, such as an Ingress; of its gateway with `roll-gateway` in"
    drill.add_argument("--url", default="", metavar="URL", help=f"{words} --faults")
    words = "how long a fault may take to heal; default 15m"
    drill.add_argument("--heal-timeout", type=seconds, default=HEAL_SECONDS, metavar="TIME", help=words)
    drill.add_argument("--model", default="", metavar="NAME", help="an adapter; default: the model itself")
    add_key(drill)
    add_output(drill)


def _faults(text: str) -> tuple[Fault, ...]:
    names = dict.fromkeys(text.split(","))
    if unknown := [name for name in names if name not in DRILLED]:
        raise argparse.ArgumentTypeError(f"there is no fault `{unknown[0]}`: there are {', '.join(DRILLED)}")
    return tuple(Fault(name) for name in names)
