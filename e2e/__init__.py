"""The local Kubernetes, the images and the tests on real nodes."""
