"""Algorithms: one file each; a sampler, a credit and a loss."""
