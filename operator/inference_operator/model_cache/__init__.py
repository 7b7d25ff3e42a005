"""The claim of `spec.cache`: a Job that downloads the model to it, and the ConfigMap that records the end. Pure."""
