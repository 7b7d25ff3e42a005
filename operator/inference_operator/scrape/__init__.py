"""HTTP requests to pods: reads their metrics, and sends a probe request to an engine that seems to stall."""
