"""HTTP to the pods: their metrics, and a question to an engine that seems to stand still."""
