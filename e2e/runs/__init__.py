"""Runs of pytest: two processes, modules that they share, and how long tests took."""
