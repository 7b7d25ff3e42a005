"""Engines over several nodes: the programs by which the pods of one engine share one fate, and how they are run."""
