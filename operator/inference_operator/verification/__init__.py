"""The signature of a model's image: a Job that verifies it with cosign, and the ConfigMap that records it. Pure."""
