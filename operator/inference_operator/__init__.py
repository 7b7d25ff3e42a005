"""A Kubernetes operator for inference services (docs/explanation/architecture.md)."""

__version__ = "0.1.0"
