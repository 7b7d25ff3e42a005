"""Prefill and decode apart: ASGI middleware of both roles."""
