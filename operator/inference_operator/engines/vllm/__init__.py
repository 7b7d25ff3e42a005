"""vLLM as an engine: command line, environment, memory behaviour, metrics and messages of `vllm serve`."""
