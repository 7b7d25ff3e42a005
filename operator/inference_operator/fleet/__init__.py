"""Rollout slots of the fleet: at how many InferenceDeployments changes of the administrator replace pods at a time."""
