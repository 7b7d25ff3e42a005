"""The parts that all child objects share: names, labels, owner, hash, quantities, pod security, probes and volumes."""
