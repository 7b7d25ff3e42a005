"""GPUs: the known kinds, and the offers of nodes."""
