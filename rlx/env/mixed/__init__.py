"""Mixtures of environments, and their curriculum."""
