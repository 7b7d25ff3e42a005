"""`infd resume`: lets the operator change a paused resource again."""
