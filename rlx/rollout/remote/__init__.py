"""Engines behind HTTP."""
