"""Logs, metrics and health of the operator process."""
