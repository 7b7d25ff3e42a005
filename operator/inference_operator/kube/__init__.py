"""Requests to the API server and to pods, over the network."""
