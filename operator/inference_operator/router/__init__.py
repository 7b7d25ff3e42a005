"""The data plane: HAProxy, configured and not written."""
