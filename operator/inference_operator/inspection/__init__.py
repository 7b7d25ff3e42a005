"""The inspection of a model: a Job that reads its files, its attempts, and the ConfigMap with the result. Pure."""
