"""HTTP requests to pods: reads their metrics, and sends a test request to an engine that seems to stall."""
