"""The options of the commands that edit resources: `infd pause`, `resume`, `restart` and `renew`."""

import argparse

from inference_operator.cli.options import add_connection, add_output, add_timeout
from inference_operator.cli.parser import examples

LIMIT_SECONDS = {
    "routers": 600,  # as a Deployment's `progressDeadlineSeconds` (Kubernetes 1.36, API reference)
    "engines": 3600,  # as of `infd run`: an engine may load 500 GB of weights at 150 MB/s
}
"""How long nothing may change while they are replaced."""

TIMEOUT_SECONDS = 60
"""Default of --timeout: two Lease durations, after which another process has taken over from one that ended."""


def add_pause(pause: argparse.ArgumentParser) -> None:
    pause.description = (
        "Stop the operator from creating, changing, repairing, scaling and deleting anything of an InferenceDeployment,"
        " and wait until it has seen that. Engines and routers go on serving, and the status stays up to date. The"
        " command sets `spec.paused`; where Git sets that field, it prints the edit to commit. `infd plan --diff` shows"
        " what waits. It needs the rights to get and patch InferenceDeployments."
    )
    pause.epilog = examples("infd pause qwen", "infd pause qwen -n chat")
    _add_waiting(pause, "pause")


def _add_waiting(parser: argparse.ArgumentParser, edit: str) -> None:
    parser.add_argument("name", help="name of the InferenceDeployment")
    add_connection(parser)
    add_timeout(parser, TIMEOUT_SECONDS, "give up when nothing changes for this time")
    add_output(parser, "name")
    parser.set_defaults(run="edit.command:run", edit=edit)


def add_resume(resume: argparse.ArgumentParser) -> None:
    resume.description = (
        "Let the operator change a paused InferenceDeployment again. Edits that have waited are applied. The command"
        " removes `spec.paused`, or sets it to false where somebody else has set it; where Git sets that field, it"
        " prints the edit to commit. It needs the rights to get and patch InferenceDeployments."
    )
    resume.epilog = examples("infd plan -f qwen.yaml --diff  # shows what waits", "infd resume qwen")
    _add_waiting(resume, "resume")


def add_restart(restart: argparse.ArgumentParser) -> None:
    restart.description = (
        "Use it to start healthy engines anew; after an upgrade of the operator, use `infd renew`. "
        "Replace the engines of an InferenceDeployment one by one, as an edit of its specification does: the strategy"
        " is that of `spec.rollout`, and new ones have the image of this release. With --routers, replace its"
        " routers. The command sets the annotation `renewed-at-generation` in `spec.podTemplate.annotations`, or in"
        " `spec.router.podTemplate.annotations`, as the actions of Argo CD do, and waits until all are new."
        " If Git sets this annotation, the command changes nothing and prints the edit to commit. It needs"
        " the rights to get and patch InferenceDeployments."
    )
    restart.epilog = examples("infd restart qwen", "infd restart qwen --routers")
    restart.add_argument("name", help="name of the InferenceDeployment")
    routers = "the routers, and not the engines"
    restart.add_argument(
        "--routers", dest="part", action="store_const", const="routers", default="engines", help=routers
    )
    add_connection(restart)
    restart.add_argument("--no-wait", action="store_true", help="do not wait until all are new")
    add_timeout(restart, LIMIT_SECONDS["engines"], "give up when nothing changes for this time")
    add_output(restart, "name")
    restart.set_defaults(run="edit.command:run", edit="restart")


def add_renew(renew: argparse.ArgumentParser) -> None:
    renew.description = (
        "Use it after an upgrade of the operator. "
        "Replace routers and engines that keep something of an earlier release, one resource after the other, and wait"
        " until all are ready: routers with an earlier pod template or configuration, engines with an earlier pod"
        " template or image. Up-to-date pods are left alone. Routers lose no request; engines are replaced as"
        " `spec.rollout.strategy` says, and keep their sizes. The command sets the annotation `renewed-at-generation`"
        " in `spec.router.podTemplate.annotations` and `spec.podTemplate.annotations`, as Argo CD's actions"
        " `renew-routers` and `renew` do. A resource that Argo CD or Flux applies is not edited: the command prints the"
        " edit to commit. It needs the rights to get (with several resources: list) and patch InferenceDeployments."
    )
    renew.epilog = examples("infd renew qwen", "infd renew --all --engines", "infd renew -A")
    which = renew.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", help="name of the InferenceDeployment")
    which.add_argument("--all", action="store_true", help="all of the namespace, one after the other")
    which.add_argument("-A", "--all-namespaces", action="store_true", help="all of the cluster, one after the other")
    only = renew.add_mutually_exclusive_group()
    for name in LIMIT_SECONDS:
        only.add_argument(f"--{name}", dest="part", action="store_const", const=name, help=f"{name} only")
    add_connection(renew)
    limits = " and ".join(f"{seconds} for {name}" for name, seconds in LIMIT_SECONDS.items())
    words = f"give up when nothing changes for this time; default {limits}"
    renew.add_argument("--timeout", type=int, metavar="SECONDS", help=words)
    add_output(renew, "name")
    renew.set_defaults(run="edit.command:run", edit="renew")
