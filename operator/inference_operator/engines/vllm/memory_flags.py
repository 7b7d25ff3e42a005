"""Flags of `vllm serve` that decide how much memory it takes: `infd fit` knows them by the same names (vLLM 0.32.0)."""

MAX_MODEL_LEN = "--max-model-len"
UTILIZATION = "--gpu-memory-utilization"
MAX_NUM_SEQS = "--max-num-seqs"
MAX_NUM_BATCHED_TOKENS = "--max-num-batched-tokens"
QUANTIZATION = "--quantization"
KV_CACHE_DTYPE = "--kv-cache-dtype"
ENFORCE_EAGER = "--enforce-eager"
