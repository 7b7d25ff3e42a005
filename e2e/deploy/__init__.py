"""Brings the operator to a cluster or a registry: the stack of tests and demo, installation, releases."""
