"""A Kubernetes operator for inference services: decide in pure functions, then do."""

__version__ = "0.1.0"
