"""Sizes of an engine: parallel sizes, memory, context. Knows no specific engine or version."""
