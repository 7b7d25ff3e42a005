"""`infd`, the command line."""
