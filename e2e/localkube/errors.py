"""The one error that this tool shows to its user."""


class ClusterError(Exception):
    """What failed, why, and what to do about it, in one readable message; it is printed without a traceback."""
