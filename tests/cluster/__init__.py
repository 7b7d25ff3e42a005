"""The cluster tool."""
