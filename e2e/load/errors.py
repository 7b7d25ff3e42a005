"""What the load client says when it cannot do what was asked."""


class LoadError(Exception):
    """One line: what, why, cure."""
