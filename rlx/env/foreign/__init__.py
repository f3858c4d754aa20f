"""Environments of other packages, and the adapter of each package."""
