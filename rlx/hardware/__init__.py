"""Resources of a run: processes, devices and memory, and the watch over its ranks."""
