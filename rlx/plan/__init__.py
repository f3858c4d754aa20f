"""Checks and estimates of a run before any model is loaded: its needs, and whether it may start."""
