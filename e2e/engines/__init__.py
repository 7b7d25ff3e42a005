"""Real engines on this machine, without a cluster: their tables of names, memory and times."""
