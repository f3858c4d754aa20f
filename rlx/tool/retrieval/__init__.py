"""Search over pages: one interface, engines in memory, on disk and behind HTTP."""
