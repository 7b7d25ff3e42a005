"""llama.cpp, `llama-server`."""
