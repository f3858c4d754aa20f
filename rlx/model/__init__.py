"""Models: loading, LoRA and the embedded nano model."""
