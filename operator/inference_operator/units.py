"""Units of memory."""

GIB = 2**30
"""Bytes of one GiB."""
MIB = 2**20
"""Bytes of one MiB."""
