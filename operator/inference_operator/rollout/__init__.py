"""How pods are replaced: when a template changes, and when an engine stands still."""
