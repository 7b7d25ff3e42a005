"""`infd cache`: the models on the claims of a cluster."""
