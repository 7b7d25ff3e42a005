"""GPUs: what kinds there are, and what nodes offer."""
