"""`infd resume`: lets the operator change a paused resource again."""

import argparse

from inference_operator.cli.parser import examples
from inference_operator.cli.pause import add_waiting, set_paused


def add_arguments(resume: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd resume`."""
    resume.description = (
        "Let the operator change a paused InferenceDeployment again. Edits that have waited are applied. The command"
        " removes `spec.paused`, or sets it to false where somebody else has set it; where Git sets that field, it"
        " prints the edit to commit. It needs the rights to get and patch InferenceDeployments."
    )
    resume.epilog = examples("infd plan -f qwen.yaml --diff  # shows what waits", "infd resume qwen")
    add_waiting(resume)
    resume.set_defaults(run=lambda options, engines: set_paused(options, engines, paused=False))
