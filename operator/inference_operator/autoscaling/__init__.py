"""Autoscaling: from samples of routers and engines to the number of replicas, with a reason in words."""
