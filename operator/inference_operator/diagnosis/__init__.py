"""Why a pod or a Job does not run, and how far the start of an engine is. Pure."""
