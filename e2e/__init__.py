"""The local cluster, the images and the tests on real nodes; imports nothing of the operator."""
