"""SGLang, `sglang.launch_server`."""
