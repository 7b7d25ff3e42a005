"""Typed, read-only views of raw Kubernetes objects and of metric samples, parsed once."""
