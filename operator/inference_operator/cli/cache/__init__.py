"""`infd cache`: the models on the claims of a cluster."""

from inference_operator.cli.cache.command import add_arguments

__all__ = ["add_arguments"]
