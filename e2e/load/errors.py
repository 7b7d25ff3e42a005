"""The error of the load generator."""


class LoadError(Exception):
    """A phase of load that did not do what its test needs; the message is one line."""
