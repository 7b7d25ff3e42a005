"""`infd support-bundle`: what others need to help, without secrets, in one archive."""

from inference_operator.cli.support_bundle.command import add_arguments

__all__ = ["add_arguments"]
