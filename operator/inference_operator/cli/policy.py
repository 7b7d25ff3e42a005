"""`infd policy`: the admission policies, for clusters where somebody else than Helm installs such objects."""

import argparse

from inference_operator.admission.operator_policy import OperatorAccount, operator_policies
from inference_operator.admission.owner_policy import PolicyScope, owner_policy
from inference_operator.admission.writer_policy import writer_policies
from inference_operator.cli.operator_settings import SYSTEM_NAMESPACE
from inference_operator.cli.yaml_documents import dump
from inference_operator.engines.registry import EngineRegistry

NAME = "inference-operator"
"""The release that the documentation installs."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd policy`."""
    command.description = (
        "Print the ValidatingAdmissionPolicies for people who write InferenceDeployments, those for the operator's own"
        " ServiceAccount, or that of the setting `policy`, with their bindings, as YAML."
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--operator", action="store_true", help="print those for the operator's own ServiceAccount")
    which.add_argument(
        "--owner",
        action="store_true",
        help="print that of the setting `policy`, whose parameters the chart writes into the ConfigMap NAME-policy",
    )
    own = command.add_argument_group("with --operator or --owner")
    own.add_argument(
        "--namespace", "-n", default=SYSTEM_NAMESPACE, help=f"namespace of the operator (default: {SYSTEM_NAMESPACE})"
    )
    own.add_argument("--name", default=NAME, help=f"name of the operator's Lease (default: {NAME})")
    own.add_argument("--account", default="", help="name of the operator's ServiceAccount (default: that of the Lease)")
    own.add_argument(
        "--pod-account",
        action="append",
        default=[],
        metavar="NAME",
        help="a ServiceAccount that the operator's settings name for pods; may be repeated",
    )
    command.set_defaults(run=run_policy)


def run_policy(options: argparse.Namespace, engines: EngineRegistry) -> int:
    """Print the policies."""
    if options.owner:
        found = owner_policy(PolicyScope(options.namespace, options.name))
    elif options.operator:
        operator = OperatorAccount(options.namespace, options.name, options.account, tuple(options.pod_account))
        found = operator_policies(operator)
    else:
        found = writer_policies(engines.option_classes)
    print(dump(found), end="")
    return 0
