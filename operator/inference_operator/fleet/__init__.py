"""The brake over the fleet: how many InferenceDeployments the owner's own changes replace pods of at a time."""
