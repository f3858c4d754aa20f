"""Bytes that a run needs on each device and machine, from shapes and settings alone."""
