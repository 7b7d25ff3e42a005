"""The network that NCCL uses between nodes, from the log of a start to the status."""

