"""`infd doctor`: what of a cluster is as the operator needs it, what is not, and what helps."""

from inference_operator.cli.doctor.command import add_arguments

__all__ = ["add_arguments"]
