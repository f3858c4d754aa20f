"""Environments: one file each; text and values, no torch."""
