"""Rollouts: engines, episodes and samplers."""
