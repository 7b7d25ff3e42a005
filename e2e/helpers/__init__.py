"""What tests on a real node share: resources, faults, clients, and servers beside the cluster."""
