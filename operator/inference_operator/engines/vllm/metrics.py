"""What vLLM calls its metrics (vllm-project/vllm v0.32.0, vllm/v1/metrics/loggers.py)."""

REQUESTS_RUNNING = "vllm:num_requests_running"
"""Requests that are being computed."""

REQUESTS_WAITING = "vllm:num_requests_waiting"
"""Requests that have arrived and are not computed yet."""
