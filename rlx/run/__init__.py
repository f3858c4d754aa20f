"""A run and its stages."""
