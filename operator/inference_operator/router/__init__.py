"""The router: HAProxy's configuration, the Kubernetes objects that run it, and its statistics."""
