"""An engine without a model: the API, the metrics and the batching of vLLM, for load on machines without GPUs.

    python -m e2e.simulator NAME [--port 8000] [arguments of `vllm serve`]

It answers completions and chat completions, streams, `/v1/models`, `/health`, `/version` and `/metrics` in the form of
vLLM 0.32. `recorded.json` holds this form; a test compares the simulator with it, another one the real engine. The text
of an answer depends on its prompt only. How long an answer takes follows from the constants in `options.py`.
"""
