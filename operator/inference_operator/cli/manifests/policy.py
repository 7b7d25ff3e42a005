"""`infd policy`: the admission policies, for clusters where somebody else than Helm installs such objects."""

import argparse

from inference_operator.admission.operator_policy import OperatorAccount, operator_policies
from inference_operator.admission.owner_policy import PolicyScope, owner_policy
from inference_operator.admission.writer_policy import writer_policies
from inference_operator.cli.yaml_documents import dump
from inference_operator.engines.registry import EngineRegistry


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
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
