"""vLLM: `vllm serve` and its flags."""
