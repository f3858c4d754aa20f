"""Checks and estimates of a run before any model is loaded: what it needs, and whether it may start."""
