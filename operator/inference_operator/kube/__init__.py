"""The API server, over the network."""
