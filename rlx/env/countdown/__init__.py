"""Countdown: the environment, its solver, its verifier and its demonstrations."""
