"""The engine on GPUs: vLLM with our own sampling."""
