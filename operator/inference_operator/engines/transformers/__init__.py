"""Hugging Face Transformers, `transformers serve`, as an engine."""
