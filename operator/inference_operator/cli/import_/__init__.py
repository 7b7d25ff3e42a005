"""`infd import`: InferenceDeployments from resources of other projects."""

from inference_operator.cli.import_.command import add_arguments

__all__ = ["add_arguments"]
