"""The options of `infd doctor`: what of a cluster is as the operator needs it, what is not, and what helps."""

import argparse

from inference_operator.cli.options import add_connection, add_output, add_timeout
from inference_operator.cli.parser import examples

TIMEOUT_SECONDS = 180
"""Default of --timeout: the pull of the operator's image, 100 MB, on a slow network."""
HUB = "https://huggingface.co"


def add_arguments(doctor: argparse.ArgumentParser) -> None:
    doctor.description = (
        "Check whether a cluster and a namespace are as the operator needs them: a list with what is right, what is"
        " not, and what helps. It only reads, and sends one pod that the API server checks and does not create. What"
        " you may not see is marked `?` with the missing right. With --cluster, a small restricted pod asks DNS and the"
        " hub from inside, and is deleted at the end. Exit status 1: something is wrong."
    )
    doctor.epilog = examples("infd doctor", "infd doctor -n team-a --cluster", "infd doctor -o json")
    add_connection(doctor)
    doctor.add_argument("--cluster", action="store_true", help="also start a pod that asks DNS and the hub")
    doctor.add_argument("--hub", default=HUB, metavar="URL", help=f"hub or mirror that the pod asks; default {HUB}")
    add_timeout(doctor, TIMEOUT_SECONDS, "time that the pod has")
    add_output(doctor)
    doctor.set_defaults(run="doctor.command:run")
