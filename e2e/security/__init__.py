"""Attacks on a real node: a real kubelet, and engines that are real vLLM."""
