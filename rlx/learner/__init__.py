"""Learners: batches, updates and checkpoints."""
